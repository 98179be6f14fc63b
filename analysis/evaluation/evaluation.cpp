#include "analysis/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>

#include "analysis/error.h"
#include "analysis/evaluation/results_json.h"
#include "analysis/evaluation/study_runs.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"
#include "analysis/unknown.h"

namespace kvloupe {

namespace {

using Json = nlohmann::json;

using results::number;
using results::number_in;
using results::optional_number;
using results::word;
using results::Wrong;

constexpr const char* kEvalFormat = "kvloupe-eval";
constexpr const char* kRescueFormat = "kvloupe-rescue";
constexpr int kVersion = 1;
constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::size_t kMostLayers = 10'000;  // more than any model has

/// Of a file that can be read.
std::string identity_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  const auto changed = std::filesystem::last_write_time(path, error);
  return fmt::format("{}-{}", size, changed.time_since_epoch().count());
}

/// Hidden states' distances, which results of earlier versions do not have.
HiddenDistances distances(const Json& run, const char* layers, const char* normed, double high) {
  HiddenDistances result{{}, optional_number(run, normed, 0.0, high)};
  const auto found = run.find(layers);
  if (found == run.end() || found->is_null()) return result;
  if (!found->is_array() || found->empty() || found->size() > kMostLayers)
    throw Wrong(fmt::format("has a \"{}\" that is not a list with one number per layer", layers));
  for (const Json& layer : *found) result.layers.push_back(number_in(layer, layers, 0.0, high));
  return result;
}

EvaluationRun run_of(const Json& json, Evaluation::Task task) {
  if (!json.is_object()) throw Wrong("is not an object");
  EvaluationRun run;
  run.policy = word(json, "policy");
  run.budget = word(json, "budget");
  run.entries = number(json, "entries", 0.0, 1e12);
  run.length = number(json, "length", 1.0, 1e12);
  run.tokens = number(json, "tokens", 1.0, 1e12);
  run.depth = run.correct = run.sample = run.loss = run.loss_difference = run.kl = run.same_top1 =
      kUnknown;
  if (task == Evaluation::Task::needle) {
    run.depth = number(json, "depth", 0.0, 100.0);
    run.correct = number(json, "correct", 0.0, 1.0);
    run.sample = optional_number(json, "sample", 0.0, 1e12);
    run.expected = results::optional_word(json, "expected");
    run.answer = results::optional_word(json, "answer");
  } else {
    run.loss = number(json, "loss", -kAnyNumber, kAnyNumber);
    run.loss_difference = optional_number(json, "loss_difference", -kAnyNumber, kAnyNumber);
    run.kl = optional_number(json, "kl", -kAnyNumber, kAnyNumber);
    run.same_top1 = optional_number(json, "same_top1", 0.0, 1.0);
  }
  run.hidden = distances(json, "hidden_distance", "normed_distance", kAnyNumber);
  run.hidden_cosine = distances(json, "hidden_cosine_distance", "normed_cosine_distance", 2.0);
  return run;
}

template <typename Of>
std::vector<std::string> in_order(const std::vector<EvaluationRun>& runs, Of of) {
  std::vector<std::string> all;
  for (const EvaluationRun& run : runs) {
    const std::string& name = of(run);
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  }
  return all;
}

}  // namespace

int Evaluation::layers() const {
  std::size_t most = 0;
  for (const EvaluationRun& run : runs) {
    most = std::max({most, run.hidden.layers.size(), run.hidden_cosine.layers.size()});
  }
  return static_cast<int>(most);
}

std::vector<std::string> Evaluation::policies() const {
  return in_order(runs, [](const EvaluationRun& run) -> const std::string& { return run.policy; });
}

std::vector<std::string> Evaluation::budgets() const {
  std::vector<std::string> all =
      in_order(runs, [](const EvaluationRun& run) -> const std::string& { return run.budget; });
  std::erase(all, "full");
  return all;
}

Evaluation read_evaluation(const std::filesystem::path& path) {
  std::string identity = identity_of(path);  // before it is read: a later one is read again
  const auto refuse = [&](const std::string& why) { throw FileError(path.string(), why); };
  if (is_study_results(path)) {
    Evaluation evaluation;
    evaluation.path = path;
    evaluation.identity = std::move(identity);
    evaluation.task = Evaluation::Task::study;
    evaluation.study = std::make_shared<const StudyTable>(read_study_table(path));
    add_study_runs(evaluation);
    return evaluation;
  }
  const Json json = results::read_json(path);
  const Json format = json.is_object() ? json.value("format", Json()) : Json();
  if (format != Json(kEvalFormat) && format != Json(kRescueFormat)) {
    refuse(
        "has no results of an evaluation; give a file written by kvloupe-capture eval or "
        "kvloupe-capture rescue, or by kvloupe study");
  }
  const Json version = json.value("format_version", Json());
  if (version.is_number_integer() && version.get<long>() > kVersion)
    refuse("was written by a newer kvloupe; open it with that version");
  if (version != Json(kVersion)) refuse("has no format_version; run the evaluation again");
  const Json settings = json.value("settings", Json());
  const Json task = settings.is_object() ? settings.value("task", Json()) : Json();
  Evaluation evaluation;
  evaluation.path = path;
  evaluation.identity = std::move(identity);
  const Json model = settings.is_object() ? settings.value("model", Json()) : Json();
  if (model.is_string()) evaluation.model = model.get<std::string>();
  evaluation.fingerprint = results::optional_word(
      format == Json(kRescueFormat) && settings.is_object() ? settings : json, "fingerprint");
  if (format == Json(kRescueFormat)) {
    evaluation.task = Evaluation::Task::rescue;
    try {
      evaluation.rescue = rescue_results(json);
    } catch (const Wrong& error) {
      refuse(error.what());
    }
    return evaluation;
  }
  if (task == Json("needle")) {
    evaluation.task = Evaluation::Task::needle;
  } else if (task == Json("perplexity")) {
    evaluation.task = Evaluation::Task::perplexity;
  } else {
    refuse("has an unknown task; known tasks are needle and perplexity");
  }
  evaluation.context_only = results::optional_word(settings, "compression") == "context-only";
  evaluation.compact = results::optional_word(settings, "positions") == "compact";
  const auto runs = json.find("runs");
  if (runs == json.end() || !runs->is_array() || runs->empty())
    refuse("has no runs; let the evaluation finish at least one");
  for (std::size_t i = 0; i < runs->size(); ++i) {
    try {
      evaluation.runs.push_back(run_of((*runs)[i], evaluation.task));
    } catch (const Wrong& error) {
      refuse(fmt::format("run {} {}; run the evaluation again", i, error.what()));
    }
  }
  const auto layers = static_cast<std::size_t>(evaluation.layers());
  for (std::size_t i = 0; i < evaluation.runs.size(); ++i) {
    for (const auto distances : {&EvaluationRun::hidden, &EvaluationRun::hidden_cosine}) {
      const std::size_t own = (evaluation.runs[i].*distances).layers.size();
      if (own != 0 && own != layers) {
        refuse(
            fmt::format("run {} has hidden states after {} layers, another run after {}; run the "
                        "evaluation again",
                        i, own, layers));
      }
    }
  }
  return evaluation;
}

bool looks_like_evaluation(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  if (is_study_results(path)) return true;
  std::ifstream in(path, std::ios::binary);
  std::string start(512, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  for (const char* format : {kEvalFormat, kRescueFormat}) {
    if (start.find(fmt::format("\"{}\"", format)) != std::string::npos) return true;
  }
  return false;
}

BudgetSize mean_size(const Evaluation& evaluation, const std::string& budget) {
  BudgetSize size;
  double count = 0.0;
  for (const EvaluationRun& run : evaluation.runs) {
    if (run.budget != budget) continue;
    size.entries += run.entries;
    size.share += run.entries / run.tokens;
    ++count;
  }
  return {size.entries / count, size.share / count};
}

std::string nearest_budget(const Evaluation& evaluation, double share) {
  std::string nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& budget : evaluation.budgets()) {
    const double away = std::abs(mean_size(evaluation, budget).share - share);
    if (away < least) {
      least = away;
      nearest = budget;
    }
  }
  return nearest;
}

HiddenDistances mean_of(const Evaluation& evaluation, const std::string& policy,
                        const std::string& budget, HiddenDistances EvaluationRun::*distances) {
  HiddenDistances mean;
  double count = 0.0, normed_count = 0.0;
  for (const EvaluationRun& run : evaluation.runs) {
    if (run.policy != policy || run.budget != budget) continue;
    const HiddenDistances& own = run.*distances;
    if (!std::isnan(own.normed)) {
      mean.normed += own.normed;
      ++normed_count;
    }
    if (own.layers.empty()) continue;
    mean.layers.resize(own.layers.size(), 0.0);
    for (std::size_t layer = 0; layer < own.layers.size(); ++layer) {
      mean.layers[layer] += own.layers[layer];
    }
    ++count;
  }
  for (double& layer : mean.layers) layer /= count;
  mean.normed /= normed_count;  // NaN where there are none
  return mean;
}

double mean_of(const Evaluation& evaluation, const std::string& policy, const std::string& budget,
               double EvaluationRun::*number) {
  double sum = 0.0;
  long count = 0;
  for (const EvaluationRun& run : evaluation.runs) {
    if (run.policy != policy || run.budget != budget || std::isnan(run.*number)) continue;
    sum += run.*number;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kUnknown;
}

}  // namespace kvloupe

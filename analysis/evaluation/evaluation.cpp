#include "analysis/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "analysis/error.h"

namespace kvloupe {

namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kLargest = 256U << 20U;
constexpr int kVersion = 1;
constexpr int kDeepest = 32;  // levels of nesting: a hostile file's could end the stack
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::size_t kMostLayers = 10'000;  // more than any model has

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw FileError(path.string(), "does not exist");
  if (!std::filesystem::is_regular_file(path, error))
    throw FileError(path.string(), "is not a file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw FileError(path.string(), "cannot be read (" + error.message() + ")");
  if (size > kLargest)
    throw FileError(path.string(), "is larger than the results of an evaluation can be");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw FileError(path.string(), "cannot be read; check its permissions");
  return std::move(text).str();
}

/// Of a file that can be read.
std::string identity_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  const auto changed = std::filesystem::last_write_time(path, error);
  return fmt::format("{}-{}", size, changed.time_since_epoch().count());
}

/// A value that must be a number within the two ends.
double number_in(const Json& json, const char* name, double low, double high) {
  double value = kUnknown;
  if (json.is_boolean()) {
    value = json.get<bool>() ? 1.0 : 0.0;
  } else if (json.is_number()) {
    value = json.get<double>();
  }
  if (!(value >= low && value <= high))
    throw std::out_of_range(fmt::format("has a \"{}\" outside the allowed range", name));
  return value;
}

/// A member that must be there and be such a number.
double number(const Json& run, const char* name, double low, double high) {
  const auto found = run.find(name);
  if (found == run.end()) throw std::out_of_range(fmt::format("has no \"{}\"", name));
  return number_in(*found, name, low, high);
}

/// One that may be missing or null.
double optional_number(const Json& run, const char* name, double low, double high) {
  const auto found = run.find(name);
  return found == run.end() || found->is_null() ? kUnknown : number(run, name, low, high);
}

std::string word(const Json& run, const char* name) {
  const auto found = run.find(name);
  if (found == run.end() || !found->is_string() || found->get<std::string>().empty())
    throw std::out_of_range(fmt::format("has no text \"{}\"", name));
  return found->get<std::string>();
}

/// Hidden states' distances, which results of earlier versions do not have.
HiddenDistances distances(const Json& run, const char* layers, const char* normed, double high) {
  HiddenDistances result{{}, optional_number(run, normed, 0.0, high)};
  const auto found = run.find(layers);
  if (found == run.end() || found->is_null()) return result;
  if (!found->is_array() || found->empty() || found->size() > kMostLayers)
    throw std::out_of_range(
        fmt::format("has a \"{}\" that is not a list with one number per layer", layers));
  for (const Json& layer : *found) result.layers.push_back(number_in(layer, layers, 0.0, high));
  return result;
}

EvaluationRun run_of(const Json& json, Evaluation::Task task) {
  if (!json.is_object()) throw std::out_of_range("is not an object");
  EvaluationRun run;
  run.policy = word(json, "policy");
  run.budget = word(json, "budget");
  run.entries = number(json, "entries", 0.0, 1e12);
  run.length = number(json, "length", 1.0, 1e12);
  run.tokens = number(json, "tokens", 1.0, 1e12);
  run.depth = run.correct = run.loss = run.loss_difference = run.kl = run.same_top1 = kUnknown;
  if (task == Evaluation::Task::needle) {
    run.depth = number(json, "depth", 0.0, 100.0);
    run.correct = number(json, "correct", 0.0, 1.0);
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
  const std::string text = read_text(path);
  const auto refuse = [&](const std::string& why) { throw FileError(path.string(), why); };
  bool too_deep = false;
  const Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      false);
  if (json.is_discarded() || too_deep)
    refuse("is not valid JSON (truncated?); run the evaluation again, or choose another file");
  if (!json.is_object() || json.value("format", Json()) != Json("kvloupe-eval"))
    refuse("has no results of an evaluation; give a file written by kvloupe-capture eval");
  const Json version = json.value("format_version", Json());
  if (version.is_number_integer() && version.get<long>() > kVersion)
    refuse("was written by a newer kvloupe; open it with that version");
  if (version != Json(kVersion)) refuse("has no format_version; run the evaluation again");
  const Json settings = json.value("settings", Json());
  const Json task = settings.is_object() ? settings.value("task", Json()) : Json();
  Evaluation evaluation;
  evaluation.path = path;
  evaluation.identity = std::move(identity);
  if (task == Json("needle")) {
    evaluation.task = Evaluation::Task::needle;
  } else if (task == Json("perplexity")) {
    evaluation.task = Evaluation::Task::perplexity;
  } else {
    refuse("has an unknown task; known tasks are needle and perplexity");
  }
  const Json model = settings.value("model", Json());
  if (model.is_string()) evaluation.model = model.get<std::string>();
  const auto runs = json.find("runs");
  if (runs == json.end() || !runs->is_array() || runs->empty())
    refuse("has no runs; let the evaluation finish at least one");
  for (std::size_t i = 0; i < runs->size(); ++i) {
    try {
      evaluation.runs.push_back(run_of((*runs)[i], evaluation.task));
    } catch (const std::out_of_range& error) {
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
  std::ifstream in(path, std::ios::binary);
  std::string start(512, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.find("\"kvloupe-eval\"") != std::string::npos;
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

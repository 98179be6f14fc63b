#include "analysis/evaluation/evaluation.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include "analysis/base/system/read_file.h"
#include "analysis/base/text/unknown.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"

namespace kvloupe {

namespace {
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

std::string EvaluationRun::name_of_case() const {
  return fmt::format("{}\n{}\n{}\n{}\n{} {} {}", policy, budget, policy_files, probe, length, depth,
                     sample);
}

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
  HiddenDistances mean{{}, 0.0};
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

std::vector<EvaluationSummary> summary_of(const Evaluation& evaluation) {
  std::vector<EvaluationSummary> lines;
  for (const EvaluationRun& run : evaluation.runs) {
    auto line = std::find_if(lines.begin(), lines.end(), [&](const EvaluationSummary& known) {
      return known.mean.policy == run.policy && known.mean.budget == run.budget;
    });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), EvaluationSummary());
      EvaluationRun& mean = line->mean;
      mean.policy = run.policy;
      mean.budget = run.budget;
      for (const auto number :
           {&EvaluationRun::correct, &EvaluationRun::loss, &EvaluationRun::loss_difference,
            &EvaluationRun::kl, &EvaluationRun::same_top1})
        mean.*number = mean_of(evaluation, run.policy, run.budget, number);
      for (const auto distances : {&EvaluationRun::hidden, &EvaluationRun::hidden_cosine})
        mean.*distances = mean_of(evaluation, run.policy, run.budget, distances);
    }
    ++line->runs;
  }
  return lines;
}

namespace {
using StoredJson = nlohmann::json;

StoredJson parsed(const std::string& text) {
  return is_deep_json(text) ? StoredJson() : StoredJson::parse(text, nullptr, false);
}

/// "red or crimson": the right answers.
std::string answers_text(const std::string& expected) {
  std::string text;
  const StoredJson answers = parsed(expected);
  if (!answers.is_array()) return text;
  for (const StoredJson& answer : answers) {
    if (answer.is_string()) text += (text.empty() ? "" : " or ") + answer.get<std::string>();
  }
  return text;
}

/// How many ids the prompt has, which stand with blanks between them.
double tokens_in(const StoredJson& stored) {
  const StoredJson ids = stored.is_object() ? stored.value("ids", StoredJson()) : StoredJson();
  if (!ids.is_string() || ids.get_ref<const std::string&>().empty()) return kUnknown;
  const auto& text = ids.get_ref<const std::string&>();
  return 1.0 + static_cast<double>(std::count(text.begin(), text.end(), ' '));
}
}  // namespace

void add_study_runs(Evaluation& evaluation) {
  const StudyTable& study = *evaluation.study;
  StudyResults results(evaluation.path);
  evaluation.model = std::filesystem::path(results.setting("model")).filename().string();
  evaluation.compact = results.setting("positions") == "compact";
  for (std::size_t i = 0; i < study.items.size(); ++i) {
    const StudyResults::Item& item = study.items[i];
    EvaluationRun run;
    run.policy = item.policy;
    run.budget = item.budget;
    run.entries = item.entries;
    if (item.seconds > 0.0) run.seconds = item.seconds;
    const auto take = [&](double& number, const char* measure) {
      const int place = study.measure(measure);
      if (place >= 0) number = study.values[static_cast<std::size_t>(place)][i];
    };
    if (item.task == kNeedleTask) take(run.correct, "needle_found");
    if (item.task == kAnswerTask) take(run.correct, "answer_found");
    if (item.task == kPerplexityTask) {
      take(run.loss, "perplexity_loss");
      take(run.loss_difference, "perplexity_loss_difference");
      take(run.kl, "perplexity_kl");
      take(run.same_top1, "perplexity_same_top1");
    }
    if (item.task != kReplayTask && item.state == "done") {
      const StudyPrompt prompt = results.prompt(item.number);
      const StoredJson stored = parsed(prompt.stored);
      run.tokens = tokens_in(stored);
      run.length = run.tokens;
      run.expected = answers_text(prompt.expected);
      run.answer = prompt.answer;
      if (evaluation.fingerprint.empty() && stored.is_object()) {
        const StoredJson fingerprint = stored.value("fingerprint", StoredJson());
        if (fingerprint.is_string()) evaluation.fingerprint = fingerprint.get<std::string>();
      }
    }
    evaluation.runs.push_back(std::move(run));
  }
}

bool has_prompt(const EvaluationRun& run) { return std::isfinite(run.tokens); }

}  // namespace kvloupe

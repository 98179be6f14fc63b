#include "analysis/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/unknown.h"

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

}  // namespace kvloupe

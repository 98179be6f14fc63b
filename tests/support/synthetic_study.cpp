#include "tests/support/synthetic_study.h"

#include <string>
#include <vector>

#include "analysis/study/database.h"
#include "analysis/study/study_results.h"
#include "tests/support/cells.h"

namespace kvloupe::test {

namespace {
constexpr const char* kPolicyNames[] = {"h2o", "keydiff", "snapkv+critical"};
constexpr const char* kBudgetNames[] = {"10%", "25%", "50%"};
constexpr int kEntries[] = {20, 50, 100};

/// The measures of a task, each as a function of the synthetic value.
struct OfTask {
  const char* task;
  std::vector<int> measures;
  bool heads = true;
};

double measured(int measure, double value) {
  switch (measure) {
    case 0:
      return value;
    case 1:
      return 1.0 - value / 4.0;
    case 2:
      return 1.0 - value / 8.0;
    default:
      return 2.0 + value;
  }
}

std::vector<StudyValue> values_of(const OfTask& task, int prompt, int policy, int budget) {
  std::vector<StudyValue> values;
  for (const int measure : task.measures) {
    const std::size_t whole = values.size();
    values.push_back({measure});
    double sum = 0.0;
    for (const auto& [layer, head] : cells(kStudyLayers, kStudyHeads)) {
      const double value = measured(measure, study_value(prompt, policy, budget, layer, head));
      sum += value;
      if (task.heads) values.push_back({measure, layer, head, -1, value});
    }
    values[whole].value = sum / (kStudyLayers * kStudyHeads);
  }
  return values;
}
}  // namespace

double study_value(int prompt, int policy, int budget, int layer, int head) {
  const bool other_way = prompt == 3 || prompt == 6;
  const int place = other_way ? kStudyPolicies - 1 - policy : policy;
  const double of_prompt = 1.0 + 0.05 * prompt;
  // Head 1.1 varies over the prompts more than the others.
  const double of_head = 0.1 * (layer + head) + (layer == 1 && head == 1 ? 0.08 * prompt : 0.0);
  return (of_prompt + of_head + 0.2 * place) / (1.0 + budget);
}

std::filesystem::path write_synthetic_study(const std::filesystem::path& path, int prompts) {
  Study study;
  study.measures = {"perturbation_l1", "retained_mass", "drift_agreement", "perplexity_loss"};
  for (const char* policy : kPolicyNames) study.policies.push_back(parse_policy(policy));
  for (const char* budget : kBudgetNames) study.budgets.push_back(parse_budget(budget));
  StudyPlan plan;
  std::vector<StudyOutcome> outcomes;
  for (const OfTask& task : {OfTask{kReplayTask, {0, 1}}, OfTask{kDriftTask, {2}},
                             OfTask{kPerplexityTask, {3}, false}}) {
    const bool replays = task.task == std::string(kReplayTask);
    for (int prompt = 0; prompt < prompts; ++prompt) {
      const std::string name = replays ? "t" + std::to_string(prompt) + ".h5"
                                       : task.task + std::string(" of p") + std::to_string(prompt);
      const int trace = static_cast<int>(plan.sources.size());
      plan.sources.push_back({name, "made", task.task});
      const auto add = [&](const std::string& policy, const std::string& budget, int entries,
                           std::vector<StudyValue> values) {
        StudyItem item{.trace = trace,
                       .policy = policy,
                       .budget = budget,
                       .block_word = "capture",
                       .entries = entries,
                       .block = 32,
                       .compression = "regular"};
        StudyOutcome outcome;
        outcome.item = static_cast<int>(plan.items.size());
        outcome.seconds = 0.1;
        outcome.values = std::move(values);
        outcomes.push_back(std::move(outcome));
        plan.items.push_back(std::move(item));
      };
      if (!task.heads) add("full", "full", 200, {{task.measures.front(), -1, -1, -1, 2.0}});
      for (const auto& [policy, budget] : cells(kStudyPolicies, kStudyBudgets)) {
        add(kPolicyNames[policy], kBudgetNames[budget], kEntries[budget],
            values_of(task, prompt, policy, budget));
      }
    }
  }
  StudyResults results(path, study, plan);
  for (const StudyOutcome& outcome : outcomes) results.record(outcome);
  return path;
}

MadeStudy::MadeStudy() {
  static const TemporaryFolder written;
  static const std::filesystem::path made = write_synthetic_study(written / "study.sqlite");
  std::filesystem::copy_file(made, path_);
}

void MadeStudy::change(const std::string& sql) const {
  Database(path_, Database::Access::write).run(sql);
}

}  // namespace kvloupe::test

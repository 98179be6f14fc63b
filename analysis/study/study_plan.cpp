#include "analysis/study/study_plan.h"

#include <algorithm>
#include <memory>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/policy/policy.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

namespace {
/// Fills in what only the trace knows.
void settle(StudyItem& item, const Trace& trace, const PolicySpec& policy, const Budget& budget,
            int block, std::optional<Compression> compression) {
  const std::vector<Block> steps = replay_blocks(trace, block, compression);
  item.entries = budget.resolve(trace.run().prompt_length);
  check_limits(policy, trace.model(), item.entries, trace.length());
  item.block = replay_block(trace, block);
  item.compression = compression_name(replay_compression(trace, compression));
  item.cost = replay_cost(trace.model(), steps, item.entries);
}
}  // namespace

double replay_cost(const ModelInfo& model, const std::vector<Block>& steps, int budget) {
  double products = 0.0;
  for (const Block& step : steps) {
    const int queries = step.end - step.first;
    const int present = std::min(step.end, budget + queries);
    products += (queries + 1.0) * present;
  }
  return products * model.num_layers * model.num_heads * model.head_dim;
}

StudyPlan plan_study(const Study& study) {
  StudyPlan plan;
  for (int t = 0; t < static_cast<int>(study.traces.size()); ++t) {
    const StudyTrace& file = study.traces[static_cast<std::size_t>(t)];
    std::unique_ptr<Trace> trace;
    std::string problem;
    try {
      trace = std::make_unique<Trace>(file.path);
    } catch (const FileError& error) {
      problem = in_one_line(error.what(), 400);
    }
    plan.identities.push_back(trace ? trace->identity() : "");
    for (const PolicySpec& policy : study.policies) {
      for (const Budget& budget : study.budgets) {
        for (const int block : study.blocks) {
          StudyItem item;
          item.trace = t;
          item.policy = policy.text();
          item.budget = budget.text();
          item.block_word = block_text(block);
          item.problem = problem;
          try {
            if (trace) settle(item, *trace, policy, budget, block, study.compression);
          } catch (const UsageError& error) {
            throw FileError(study.path.string(), in_one_line(file.name, 200) + " with " +
                                                     item.policy + ", budget " + item.budget +
                                                     ", block " + item.block_word + ": " +
                                                     in_one_line(error.what(), 400));
          }
          plan.items.push_back(std::move(item));
        }
      }
    }
  }
  return plan;
}

}  // namespace kvloupe

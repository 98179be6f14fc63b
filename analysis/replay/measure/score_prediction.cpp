// score prediction: whether a policy's scores foretell the attention that comes later.

#include <vector>

#include "analysis/math/later_attention.h"
#include "analysis/math/rank_correlation.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
void measure(MeasuredStep& step, std::span<double> values) {
  const LayerStates& states = step.states();
  const std::vector<float>& scores = step.decision().scores;
  // A replay may be asked for scores at steps that keep everything, too; others do not have them.
  if (!step.evicted() || scores.empty()) return;
  if (states.queries.empty() || states.logsumexp.empty()) return;
  const int later =
      static_cast<int>(states.queries[static_cast<std::size_t>(step.first_query_head())].rows()) -
      step.block().end;
  if (later < 1) return;
  std::vector<double> attention(scores.size(), 0.0);
  Progress progress;  // a step is short
  for (int i = 0; i < step.group(); ++i) {
    const int query_head = step.first_query_head() + i;
    const auto index = static_cast<std::size_t>(query_head);
    const std::vector<double> own = later_attention(
        view(states.queries[index]), view(states.keys[static_cast<std::size_t>(step.head())]),
        states.logsumexp[index], step.present(), step.block().end, step.rule(query_head),
        step.context().model.reach(), progress);
    for (std::size_t entry = 0; entry < own.size(); ++entry) attention[entry] += own[entry];
  }
  values[0] = spearman(std::vector<double>(scores.begin(), scores.end()), attention);
}
}  // namespace

MeasureFamily score_prediction() {
  MeasureFamily family;
  family.group = MeasureGroup::scores;
  family.name = "Scores and later attention";
  family.remark =
      "At steps that evict, over all n entries of the cache before the eviction, protected ones "
      "included. Attention is that of the full cache, mean over all queries after the step and "
      "over the group. The measure looks into the future, so it can judge a policy but not be one. "
      "NaN if no query comes later, or if all scores are equal. Needs the products of all later "
      "queries with the entries at every step.";
  family.scope = MeasureScope::step;
  family.on_request = true;
  family.reads_scores = true;
  family.of_step = measure;
  family.measures = {{.name = "score_attention_correlation",
                      .title = "ρ with later attention",
                      .formula =
                          "Spearman's rank correlation of score_i and the mean of A[q,i] over "
                          "the queries q after the step; ties share their mean rank",
                      .source = "ours",
                      .better = Better::larger,
                      .help = "Whether entries with higher scores receive more attention from "
                              "later queries: the rank correlation of the two.",
                      .reads = {.queries = true,
                                .values = false,
                                .output_weights = false,
                                .value_norms = false,
                                .logsumexp = true}}};
  return family;
}

}  // namespace kvloupe::measures

// eviction error: the effect of one step's eviction on the output of the cache before it; the sum
// of CAOTE's scores, which treat every entry as if it left alone, beside the truth.

#include <vector>

#include "analysis/math/norms.h"
#include "analysis/math/perturbation.h"
#include "analysis/policy/kit/value_aware_score.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
enum Slot { kSum, kJoint, kRatio };

/// Rows of the present cache that left.
std::vector<std::int32_t> evicted_rows(const MeasuredStep& step) {
  std::vector<std::int32_t> gone;
  std::size_t next = 0;
  const std::vector<std::int32_t>& kept = step.decision().kept;
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(step.present().size()); ++row) {
    if (next < kept.size() && kept[next] == row) {
      ++next;
    } else {
      gone.push_back(row);
    }
  }
  return gone;
}

/// Values of these tokens [n,d]: those of their entries where nothing was ever merged.
Matrix values_of(const MeasuredStep& step, std::span<const std::int32_t> tokens) {
  const MatrixView all = step.prefix_values();
  Matrix values(static_cast<Eigen::Index>(tokens.size()), all.cols());
  for (Eigen::Index row = 0; row < values.rows(); ++row) {
    values.row(row) = all.row(tokens[static_cast<std::size_t>(row)]);
  }
  return values;
}

/// h [n] over entries of these tokens, of which the rows `gone` leave; values times the gate.
void fill(const MeasuredStep& step, std::span<const std::int32_t> tokens,
          std::span<const double> attention, const std::vector<std::int32_t>& gone,
          double sink_share, std::span<const float> gate, std::span<double> values) {
  Matrix present = values_of(step, tokens);
  multiply_columns(present, gate);
  values[kSum] = 0.0;
  for (const double change : caote_scores(attention, view(present), gone)) values[kSum] += change;
  values[kJoint] = joint_eviction_error(attention, view(present), gone, sink_share);
  if (values[kJoint] > 0.0) values[kRatio] = values[kSum] / values[kJoint];
}

bool known(const MeasuredStep& step) { return step.evicted() && !step.cache().changed(); }

/// h: the query's own attention over the cache before the eviction.
void of_query_head(MeasuredStep& step, int query_head, std::span<double> values) {
  if (!known(step)) return;
  const std::span<const float> logits = step.logits(query_head);
  std::vector<std::int32_t> tokens(step.present().begin(), step.present().end());
  std::vector<std::int32_t> gone = evicted_rows(step);
  // The query still has what leaves.
  const std::vector<std::int32_t>& leaving = step.leaving().tokens;
  tokens.insert(tokens.begin(), leaving.begin(), leaving.end());
  for (std::int32_t& row : gone) row += static_cast<std::int32_t>(leaving.size());
  std::vector<float> present;
  for (const std::int32_t token : tokens) {
    present.push_back(logits[static_cast<std::size_t>(token - step.first_token())]);
  }
  const double sink = step.rule(query_head).sink;
  fill(step, tokens, softmax(present, sink), gone, sink_share(present, sink), step.gate(query_head),
       values);
}

/// h: the policy's own score as attention.
void of_step(MeasuredStep& step, std::span<double> values) {
  const std::vector<float>& scores = step.decision().scores;
  if (!known(step) || scores.empty() || step.value_aware()) return;
  fill(step, step.present(), as_attention(scores), evicted_rows(step), 0.0, {}, values);
}

std::vector<MeasureInfo> infos(const std::string& prefix, const std::string& h,
                               const std::string& by) {
  const std::string whose = prefix.empty() ? "" : ", by scores";
  return {
      {.name = prefix + "eviction_sum",
       .title = "Sum of CAOTE errors Σ c" + whose,
       .formula = "sum over evicted j of c_j = h_j / (1 - h_j) ||o - v_j||_2, " + h,
       .source = "CAOTE eq. 8, appendix A",
       .better = Better::smaller,
       .help = "Errors that CAOTE gives the evicted entries one by one, added up, " + by},
      {.name = prefix + "eviction_joint",
       .title = "Joint eviction error" + whose,
       .formula = "||sum over evicted j of h_j (o - v_j)||_2 / (1 - sum over evicted of h_j), " + h,
       .source = "ours, after CAOTE theorem 3.2",
       .better = Better::smaller,
       .help = "Error of evicting the same entries together, " + by},
      {.name = prefix + "eviction_ratio",
       .title = "Sum / joint error" + whose,
       .formula = prefix + "eviction_sum / " + prefix + "eviction_joint",
       .source = "ours",
       .help = "The sum of the single errors divided by the joint error, " + by}};
}
}  // namespace

MeasureFamily eviction_error() {
  MeasureFamily family;
  family.group = MeasureGroup::step;
  family.name = "Error of one eviction, per query";
  family.remark =
      "How much this step's eviction alone changes the last query's output: the cache before the "
      "eviction compared with the cache after it. The joint error is exact; the sum treats each "
      "entry as if it were evicted alone. Known at steps that evict, and neither where the cache "
      "has synthetic entries (merging, attentionmatching) nor in fewer bits (quant).";
  family.scope = MeasureScope::query_head;
  family.of_query_head = of_query_head;
  family.measures = infos("", "h the query's softmax over the cache before the eviction",
                          "by the attention of the step's last query.");
  return family;
}

MeasureFamily policy_eviction_error() {
  MeasureFamily family;
  family.group = MeasureGroup::step;
  family.name = "Error of one eviction, by the policy's scores";
  family.remark =
      "The same with the policy's own scores as attention. This approximates the loss of a single "
      "query, because a score is a mean over queries and query heads. With caote and fastcaote the "
      "base score is not stored, so these measures are unknown.";
  family.scope = MeasureScope::step;
  family.reads_scores = true;
  family.of_step = of_step;
  family.measures =
      infos("score_", "h the scores, shifted and divided to sum to 1", "by the policy's scores.");
  return family;
}

}  // namespace kvloupe::measures

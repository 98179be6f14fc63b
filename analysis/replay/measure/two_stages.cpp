// two stages: CriticalKV's bound in terms of its first stage, and the assumption it rests on.

#include <vector>

#include "analysis/math/bounds.h"
#include "analysis/math/perturbation.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
enum StageSlot { kMass, kHolds, kBoundL1, kRelaxedL1, kBoundL2, kRelaxedL2 };

void measure(MeasuredStep& step, int query_head, std::span<double> values) {
  const std::vector<Fate>& fates = step.decision().fates;
  if (fates.empty() || step.cache().changed()) return;
  // Rows among the tokens that the query sees. The query still sees entries that leave with the
  // window, whatever the stages choose.
  std::vector<std::int32_t> one, two;
  for (const std::int32_t token : step.leaving().tokens) one.push_back(token - step.first_token());
  for (std::size_t row = 0; row < fates.size(); ++row) {
    const std::int32_t seen = step.present()[row] - step.first_token();
    if (fates[row] == Fate::by_second_stage) {
      two.push_back(seen);
    } else if (fates[row] != Fate::evicted && fates[row] != Fate::dropped) {
      one.push_back(seen);
    }
  }
  const double sink = sink_share(step.logits(query_head), step.rule(query_head).sink);
  const auto of = [&](Norm norm) {
    return two_stage_bound(step.attention(query_head), step.value_out_norms(query_head, norm), one,
                           two, sink);
  };
  const TwoStageBound l1 = of(Norm::l1);
  const TwoStageBound l2 = of(Norm::l2);
  values[kMass] = l1.mass;
  values[kHolds] = l1.mass > 0.5 ? 1.0 : 0.0;
  values[kBoundL1] = l1.bound;
  values[kRelaxedL1] = l1.relaxed;
  values[kBoundL2] = l2.bound;
  values[kRelaxedL2] = l2.relaxed;
}
}  // namespace

MeasureFamily two_stages() {
  MeasureFamily family;
  family.group = MeasureGroup::step;
  family.name = "The two stages of CriticalKV";
  family.remark =
      "Measured for the step's last query over the whole captured prefix. Stage one is the set "
      "chosen before the second stage, including protected entries. Known at steps that evict. If "
      "assumption 3.4 fails, the relaxed bound has no meaning and is NaN; bound_stage_one is still "
      "a bound. With synthetic entries and in fewer bits (quant) these measures are unknown.";
  family.scope = MeasureScope::query_head;
  family.needs_part = "critical";
  family.reads_scores = true;
  family.of_query_head = measure;
  family.measures = {
      {.name = "stage_one_mass",
       .title = "Attention of stage one σ",
       .formula = "sigma = sum over stage one of A_i; sigma <= S",
       .source = "CriticalKV assumption 3.4",
       .better = Better::larger,
       .share = true,
       .help = "Attention on the entries that the first stage of CriticalKV keeps."},
      {.name = "assumption_holds",
       .title = "Assumption σ > 0.5",
       .formula = "1 if sigma > 0.5, else 0; in a sweep the share of queries for which it holds",
       .source = "CriticalKV assumption 3.4",
       .better = Better::larger,
       .share = true,
       .help = "Whether the first stage holds more than half of the attention, as CriticalKV "
               "assumes: 1 if it does, else 0."},
      {.name = "bound_stage_one_l1",
       .title = "Two-stage bound θ̂ (L1)",
       .formula = "theta with sigma in place of S; theta <= this",
       .source = "CriticalKV theorem 3.5",
       .better = Better::smaller,
       .help = "The bound θ with the first stage's attention in place of all attention kept: never "
               "below θ."},
      {.name = "bound_relaxed_l1",
       .title = "Relaxed bound θ̂_relax (L1)",
       .formula = "bound_stage_one_l1 with the smallest norm of all entries in place of the norms "
                  "of stage two",
       .source = "CriticalKV theorem E.1",
       .better = Better::smaller,
       .help = "The two-stage bound with the smallest norm of all entries in place of those of the "
               "second stage."},
      {.name = "bound_stage_one_l2",
       .title = "Two-stage bound θ̂ (L2)",
       .formula = "the same with L2 norms",
       .source = "CriticalKV appendix F",
       .better = Better::smaller,
       .help = "The two-stage bound in the L2 norm."},
      {.name = "bound_relaxed_l2",
       .title = "Relaxed bound θ̂_relax (L2)",
       .formula = "the same with L2 norms",
       .source = "CriticalKV appendix F",
       .better = Better::smaller,
       .help = "The relaxed two-stage bound in the L2 norm."},
  };
  return family;
}

}  // namespace kvloupe::measures

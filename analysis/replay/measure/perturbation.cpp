// perturbation: the loss of a head's output, and CriticalKV's bound of it.

#include "analysis/math/perturbation.h"
#include "analysis/math/bounds.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
constexpr StateParts kNothing{false, false, false, false};
constexpr StateParts kValues{false, true, false, false};
constexpr StateParts kOutputs{false, true, true, false};
constexpr StateParts kNorms{false, false, false, true};
constexpr StateParts kOutputsAndNorms{false, true, true, true};

/// The cache as it stands after the step against all that the query sees of the captured prefix.
QueryHeadMetrics of_cache(MeasuredStep& step, int query_head) {
  const OutputWeight* weight = step.output_weight(query_head);
  if (step.cache().changed()) {
    return merged_perturbation(step.logits(query_head), step.kept_rows(),
                               step.gated_values(query_head), step.cache_logits(query_head),
                               step.cache_values(query_head), weight, step.rule(query_head).sink);
  }
  return output_perturbation(step.logits(query_head), step.attention(query_head), step.kept_rows(),
                             step.gated_values(query_head), weight,
                             step.value_out_norms(query_head, Norm::l1),
                             step.value_out_norms(query_head, Norm::l2), step.rule(query_head).sink,
                             step.output(query_head));
}
}  // namespace

MeasureFamily perturbation() {
  MeasureFamily family;
  family.group = MeasureGroup::step;
  family.name = "Output perturbation";
  family.remark =
      "Measured for the step's last query: the full cache compared with the retained entries. A: "
      "attention over the whole captured prefix; A': over the retained entries. NaN if the trace "
      "has no output weights. With synthetic entries (merging, attentionmatching) and in fewer "
      "bits (quant) the bounds do not hold and are NaN. A sink logit counts as an entry with value "
      "0 that is always kept. Where the layer has an output gate, outputs, values and norms are "
      "those after the gate, which depends on the query.";
  family.scope = MeasureScope::query_head;
  family.at_every_step = true;
  family.measures = {
      {.name = "retained_mass",
       .title = "Retained attention mass",
       .formula = "S = sum over retained i of A_i",
       .source = "CriticalKV theorem 3.3",
       .better = Better::larger,
       .share = true,
       .label = "retained mass",
       .help = "Sum of the attention on the kept entries, for the step's last query, mean "
               "over the head's query heads. CriticalKV §3 (S).",
       .reads = kNothing},
      {.name = "perturbation_l1",
       .title = "Output perturbation ℒ (L1)",
       .formula = "L = ||(A - A') V W_O||_1",
       .source = "CriticalKV definition 2.1",
       .better = Better::smaller,
       .label = "perturbation ℒ",
       .help =
           "ℒ = ‖((A − A′)V)W_O‖₁: how much the head's output changes, after W_O, for the step's "
           "last query. CriticalKV §3.",
       .reads = kOutputs},
      {.name = "bound_l1",
       .title = "Perturbation bound θ (L1)",
       .formula =
           "theta = C - (2 - 1/S) sum over retained i of A_i ||v_i W_O||_1, C = sum over all "
           "i of A_i ||v_i W_O||_1; L <= theta",
       .source = "CriticalKV theorem 3.3",
       .better = Better::smaller,
       .label = "bound θ",
       .help = "θ = C − (2 − 1/S)·Σ over kept of Aᵢ‖vᵢW_O‖₁, an upper bound of ℒ. CriticalKV "
               "theorem 3.3.",
       .reads = kNorms},
      {.name = "tightness_l1",
       .title = "Tightness ℒ/θ (L1)",
       .formula =
           "L / theta; 1 if the bound is exact; NaN if theta = 0 (no retained entry has attention)",
       .source = "ours",
       .share = true,
       .share_of = "bound_l1",
       .label = "tightness ℒ/θ",
       .help = "ℒ divided by its bound θ, mean over the head's query heads: 1 if the bound is "
               "exact; – if θ is 0 (no kept entry has attention). CriticalKV theorem 3.3.",
       .reads = kOutputsAndNorms},
      {.name = "perturbation_l2",
       .title = "Output perturbation ℒ (L2)",
       .formula = "L = ||(A - A') V W_O||_2",
       .source = "CriticalKV appendix F",
       .better = Better::smaller,
       .help = "ℒ in the L2 norm: how far the head's part of the layer's output moves, for the "
               "step's last query, when the evicted entries are missing.",
       .reads = kOutputs},
      {.name = "bound_l2",
       .title = "Perturbation bound θ (L2)",
       .formula = "theta with L2 norms throughout",
       .source = "CriticalKV appendix F",
       .better = Better::smaller,
       .help = "θ in the L2 norm, an upper bound of ℒ in that norm.",
       .reads = kNorms},
      {.name = "head_error_l2",
       .title = "Head output error ‖o − o′‖",
       .formula = "||(A - A') V||_2, before W_O",
       .source = "CAOTE §3",
       .better = Better::smaller,
       .help = "Length of the change of the head's output, before the output projection, for the "
               "step's last query.",
       .reads = kValues},
      {.name = "tightness_l2",
       .title = "Tightness ℒ/θ (L2)",
       .formula = "L / theta, both L2; NaN if theta = 0",
       .source = "ours",
       .share = true,
       .share_of = "bound_l2",
       .help = "ℒ divided by its bound θ, both in the L2 norm: 1 if the bound is exact.",
       .reads = kOutputsAndNorms},
  };
  family.of_query_head = [](MeasuredStep& step, int query_head, std::span<double> values) {
    const QueryHeadMetrics m = of_cache(step, query_head);
    values[0] = m.retained_mass;
    values[1] = m.perturbation_l1;
    values[2] = m.bound_l1;
    values[3] = tightness(m.perturbation_l1, m.bound_l1);
    values[4] = m.perturbation_l2;
    values[5] = m.bound_l2;
    values[6] = m.head_error_l2;
    values[7] = tightness(m.perturbation_l2, m.bound_l2);
  };
  return family;
}

}  // namespace kvloupe::measures

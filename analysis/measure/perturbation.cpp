// perturbation: what a head's output loses, and CriticalKV's bound of it.

#include "analysis/measure/measures.h"
#include "analysis/metric/tightness.h"

namespace kvloupe::measures {

MeasureFamily perturbation() {
  using Metrics = QueryHeadMetrics;
  MeasureFamily family;
  family.name = "Output perturbation";
  family.remark =
      "Measured for the step's last query: the full cache compared with the retained entries. A: "
      "attention over the whole captured prefix; A': over the retained entries. NaN if the trace "
      "has no output weights. After merging the bounds do not hold and are NaN.";
  family.scope = MeasureScope::query_head;
  family.measures = {
      {.name = "retained_mass",
       .title = "Retained attention mass",
       .unit = "",
       .formula = "S = sum over retained i of A_i",
       .source = "CriticalKV theorem 3.3",
       .better = Better::larger,
       .share = true,
       .of_query_head = [](const Metrics& m) { return m.retained_mass; }},
      {.name = "perturbation_l1",
       .title = "Output perturbation ℒ (L1)",
       .unit = "",
       .formula = "L = ||(A - A') V W_O||_1",
       .source = "CriticalKV definition 2.1",
       .better = Better::smaller,
       .of_query_head = [](const Metrics& m) { return m.perturbation_l1; }},
      {.name = "bound_l1",
       .title = "Perturbation bound θ (L1)",
       .unit = "",
       .formula =
           "theta = C - (2 - 1/S) sum over retained i of A_i ||v_i W_O||_1, C = sum over all "
           "i of A_i ||v_i W_O||_1; L <= theta",
       .source = "CriticalKV theorem 3.3",
       .better = Better::smaller,
       .of_query_head = [](const Metrics& m) { return m.bound_l1; }},
      {.name = "tightness_l1",
       .title = "Tightness ℒ/θ (L1)",
       .unit = "",
       .formula =
           "L / theta; 1 if the bound is exact; NaN if theta = 0 (no retained entry has attention)",
       .source = "ours",
       .share = true,
       .of_query_head = [](const Metrics& m) { return tightness(m.perturbation_l1, m.bound_l1); }},
      {.name = "perturbation_l2",
       .title = "Output perturbation ℒ (L2)",
       .unit = "",
       .formula = "L = ||(A - A') V W_O||_2",
       .source = "CriticalKV appendix F",
       .better = Better::smaller,
       .of_query_head = [](const Metrics& m) { return m.perturbation_l2; }},
      {.name = "bound_l2",
       .title = "Perturbation bound θ (L2)",
       .unit = "",
       .formula = "theta with L2 norms throughout",
       .source = "CriticalKV appendix F",
       .better = Better::smaller,
       .of_query_head = [](const Metrics& m) { return m.bound_l2; }},
      {.name = "head_error_l2",
       .title = "Head output error ‖o − o′‖",
       .unit = "",
       .formula = "||(A - A') V||_2, before W_O",
       .source = "CAOTE §3",
       .better = Better::smaller,
       .of_query_head = [](const Metrics& m) { return m.head_error_l2; }},
      {.name = "tightness_l2",
       .title = "Tightness ℒ/θ (L2)",
       .unit = "",
       .formula = "L / theta, both L2; NaN if theta = 0",
       .source = "ours",
       .share = true,
       .of_query_head = [](const Metrics& m) { return tightness(m.perturbation_l2, m.bound_l2); }},
  };
  return family;
}

}  // namespace kvloupe::measures

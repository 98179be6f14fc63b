// output error: a head's output error relative to its output.

#include <cmath>
#include <limits>

#include "analysis/measure/measure_catalog.h"
#include "analysis/measure/measures.h"
#include "analysis/measure/output_error.h"

namespace kvloupe {

double SquaredError::share() const {
  return output > 0.0 ? error / output : std::numeric_limits<double>::quiet_NaN();
}

SquaredError squared_error(const HeadReplay& head) {
  return squared_error(head, first_measured_step(head));
}

SquaredError squared_error(const HeadReplay& head, std::size_t first_step) {
  const Measure& norm = require_measure("output_norm_l2");
  const Measure& lost = require_measure("head_error_l2");
  SquaredError sum;
  for (std::size_t step = first_step; step < head.steps.size(); ++step) {
    const StepRecord& record = head.steps[step];
    for (std::size_t i = 0; i < record.query_heads.size(); ++i) {
      const double output = measure_at(norm, record, static_cast<int>(i));
      const double error = measure_at(lost, record, static_cast<int>(i));
      sum.error += error * error;
      sum.output += output * output;
    }
  }
  return sum;
}

namespace measures {

MeasureFamily output_norm() {
  MeasureFamily family;
  family.group = MeasureGroup::step;
  family.name = "Size of the output";
  family.remark = "Measured for the step's last query with the full cache, before W_O.";
  family.scope = MeasureScope::query_head;
  family.of_full_cache = true;
  family.measures = {
      {.name = "output_norm_l2",
       .title = "Output norm ‖o‖",
       .formula = "||A V||_2",
       .source = "CAOTE figure 3",
       .help = "Length of the head's output for the step's last query, with the full cache and "
               "before the output projection.",
       .reads = {.queries = false, .values = true, .output_weights = false, .value_norms = false}},
  };
  family.of_query_head = [](MeasuredStep& step, int query_head, std::span<double> values) {
    const std::span<const double> output = step.output(query_head);
    values[0] = Eigen::Map<const Eigen::VectorXd>(output.data(), std::ssize(output)).norm();
  };
  return family;
}

MeasureFamily output_error() {
  MeasureFamily family;
  family.group = MeasureGroup::step;
  family.name = "Relative output error";
  family.remark =
      "Over the last queries of all steps from the first eviction on, and over the head's query "
      "heads. The paper shows an output error per layer but does not define its normalisation; "
      "this one is ours.";
  family.scope = MeasureScope::replay;
  family.measures = {
      {.name = "output_error",
       .title = "Output error Σ‖o − o′‖² / Σ‖o‖²",
       .formula = "sum of ||o - o'||^2 / sum of ||o||^2, before W_O",
       .source = "ours, after CAOTE figure 3",
       .better = Better::smaller,
       .help = "Squared change of the head's outputs over the replay, relative to their squared "
               "length, before the output projection.",
       .made_of = {"output_norm_l2", "head_error_l2"},
       .of_replay = [](const HeadReplay& head) { return squared_error(head).share(); }}};
  return family;
}

}  // namespace measures
}  // namespace kvloupe

// output error: a head's output error relative to its output.

#include "analysis/replay/measure/output_error.h"

#include <limits>

#include "analysis/math/attention.h"
#include "analysis/math/perturbation.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure/measures.h"

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

Eigen::VectorXd output_change(const LayerStates& states, const ModelInfo& model,
                              const LayerAttention& attention,
                              std::span<const std::vector<std::int32_t>> retained,
                              int query_token) {
  Eigen::VectorXd change = Eigen::VectorXd::Zero(model.hidden_size);
  for (int query_head = 0; query_head < model.num_heads; ++query_head) {
    const auto head = static_cast<std::size_t>(model.head_of(query_head));
    const auto index = static_cast<std::size_t>(query_head);
    const LogitRule rule = attention.of(query_head);
    const int first = first_seen(query_token, model.reach());
    const auto query = states.queries[index].row(query_token);
    const std::vector<float> logits =
        attention_logits({query.data(), static_cast<std::size_t>(query.size())},
                         rows(view(states.keys[head]), first, query_token + 1 - first), rule);
    std::vector<float> kept;
    for (const std::int32_t token : retained[head]) {
      kept.push_back(logits[static_cast<std::size_t>(token - first)]);
    }
    const std::vector<double> full = softmax(logits, rule.sink);
    const std::vector<double> cut = softmax(kept, rule.sink);
    Eigen::VectorXd output = Eigen::VectorXd::Zero(model.value_width());
    const Matrix& values = states.values[head];
    for (std::size_t i = 0; i < full.size(); ++i) {
      output -=
          full[i] * values.row(first + static_cast<Eigen::Index>(i)).cast<double>().transpose();
    }
    for (std::size_t j = 0; j < cut.size(); ++j) {
      output += cut[j] * values.row(retained[head][j]).cast<double>().transpose();
    }
    const std::span<const float> gate = states.gate(query_head, query_token);
    for (std::size_t i = 0; i < gate.size(); ++i) {
      output[static_cast<Eigen::Index>(i)] *= static_cast<double>(gate[i]);
    }
    change += states.output_weights[index].apply(output);
  }
  return change;
}

}  // namespace kvloupe

#include "analysis/measure/output_change.h"

#include "analysis/metric/attention.h"
#include "analysis/metric/perturbation.h"

namespace kvloupe {

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

#include "capture/run/running_pass.h"

#include <algorithm>
#include <stdexcept>

#include "capture/run/model_description.h"

namespace kvloupe {

RunningPass::RunningPass(const Transformer& model, const ModelInfo& info)
    : changes_(static_cast<std::size_t>(info.num_layers)) {
  for (int layer = 0; layer < info.num_layers; ++layer) {
    attending_.push_back(
        {layer, layer_model(info, model.config(), layer), layer_attention(model, layer)});
  }
}

std::span<const float> RunningPass::residual_change(int layer) const {
  return changes_[static_cast<std::size_t>(layer)];
}

void RunningPass::will_ask(int layers) {
  const int first = std::max(static_cast<int>(attending_.size()) - layers, 0);
  for (int layer = first; layer < static_cast<int>(attending_.size()); ++layer) asked_[layer];
}

void RunningPass::add_changes(int layer, std::span<const float> changes) {
  auto& own = changes_[static_cast<std::size_t>(layer)];
  own.insert(own.end(), changes.begin(), changes.end());
}

void RunningPass::add_states(int layer, const at::Tensor& query, const at::Tensor& key) {
  const auto found = asked_.find(layer);
  if (found == asked_.end()) return;
  Layer& own = found->second;
  own.query = query;
  own.width = static_cast<int>(key.size(2));
  own.end += static_cast<int>(key.size(1));
  own.keys.resize(static_cast<std::size_t>(key.size(0)));
  const std::int64_t numbers = key.size(1) * key.size(2);
  for (std::int64_t head = 0; head < key.size(0); ++head) {
    const float* rows = key.data_ptr<float>() + head * numbers;
    auto& keys = own.keys[static_cast<std::size_t>(head)];
    keys.insert(keys.end(), rows, rows + numbers);
  }
}

Matrix RunningPass::queries(int layer, int token) const {
  const Layer& own = asked_.at(layer);
  const std::int64_t row = token - (own.end - own.query.size(1));
  if (row < 0 || row >= own.query.size(1)) {
    throw std::logic_error("a query of another block than the last");
  }
  const at::Tensor rows = own.query.select(1, row).contiguous();  // [Hq,d]
  return Eigen::Map<const Matrix>(rows.data_ptr<float>(), rows.size(0), rows.size(1));
}

MatrixView RunningPass::keys(int layer, int head) const {
  const Layer& own = asked_.at(layer);
  const auto& keys = own.keys[static_cast<std::size_t>(head)];
  return {keys.data(), static_cast<Eigen::Index>(own.end), static_cast<Eigen::Index>(own.width),
          Eigen::OuterStride<>(own.width)};
}

}  // namespace kvloupe

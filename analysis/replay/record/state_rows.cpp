#include "analysis/replay/record/state_rows.h"

#include <algorithm>

#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace {
/// How many tokens are read at a time: whole chunks of a trace as kvloupe writes it.
int tokens_at_a_time(const Trace& trace, int layer, const StateParts& parts, std::size_t bytes) {
  const ModelInfo& model = trace.layer_model(layer);
  const auto count = [](int number) { return static_cast<std::size_t>(number); };
  std::size_t numbers = count(model.num_kv_heads) * count(model.head_dim);
  if (parts.values) numbers += count(model.num_kv_heads) * count(model.value_width());
  if (parts.queries) numbers += count(model.num_heads) * count(model.head_dim);
  const std::size_t a_token = numbers * sizeof(float);
  const auto chunks = static_cast<int>(bytes / (a_token * layout::kStateChunk));
  return layout::kStateChunk * std::max(chunks, 1);
}

/// One view per head of matrices that stand one after the other, of `count` rows from `first` on.
std::vector<MatrixView> rows_of_heads(const Matrix& heads, Eigen::Index tokens, Eigen::Index first,
                                      Eigen::Index count) {
  std::vector<MatrixView> views;
  for (Eigen::Index begin = 0; begin < heads.rows(); begin += tokens) {
    views.push_back(rows(view(heads), begin + first, count));
  }
  return views;
}

std::vector<MatrixView> rows_of_heads(const std::vector<Matrix>& heads, const Block& block) {
  std::vector<MatrixView> views;
  for (const Matrix& head : heads) views.push_back(rows(view(head), block.first, block.size()));
  return views;
}
}  // namespace

StateRows::StateRows(const Trace& trace, int layer, const StateParts& parts,
                     std::size_t bytes_at_a_time)
    : trace_(&trace),
      layer_(layer),
      parts_(parts),
      ahead_(tokens_at_a_time(trace, layer, parts, bytes_at_a_time)) {}

void StateRows::read(const Block& block) {
  const int ahead = std::max(std::min(ahead_, trace_->length() - block.first), block.size());
  const Block window{block.first, block.first + ahead};
  window_ = {};      // if reading fails, nothing is there
  keys_ = Matrix();  // first, for the new ones take as much
  queries_ = Matrix();
  values_ = Matrix();
  keys_ = trace_->keys(layer_, window);
  if (parts_.queries) queries_ = trace_->queries(layer_, window);
  if (parts_.values) values_ = trace_->values(layer_, window);
  window_ = window;
}

StateRows::Rows StateRows::of(const Block& block) {
  if (held_ != nullptr) {
    return {rows_of_heads(held_->queries, block), rows_of_heads(held_->keys, block),
            rows_of_heads(held_->values, block)};
  }
  if (block.first < window_.first || block.end > window_.end) read(block);
  const int first = block.first - window_.first;
  return {rows_of_heads(queries_, window_.size(), first, block.size()),
          rows_of_heads(keys_, window_.size(), first, block.size()),
          rows_of_heads(values_, window_.size(), first, block.size())};
}

}  // namespace kvloupe

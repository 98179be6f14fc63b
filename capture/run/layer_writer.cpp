#include "capture/run/layer_writer.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "analysis/base/core/parallel_loop.h"

namespace kvloupe {

namespace {

constexpr std::int64_t kTileFloats = std::int64_t{1} << 15;  // of v W_O: 128 KiB

struct Lengths {
  float l1, l2;
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target("arch=x86-64-v3")))  // available() asks for as much
#endif
/// In several sums, which stay apart until the end.
Lengths
lengths_of(const float* x, std::size_t n) {
  typedef float Vector __attribute__((vector_size(32)));
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  constexpr std::size_t kVectors = 4;
  Vector absolute[kVectors] = {}, squares[kVectors] = {};
  constexpr std::size_t kStep = kVectors * kLanes;
  const std::size_t whole = n / kStep * kStep;
  for (std::size_t i = 0; i < whole; i += kStep) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vector part;
      std::memcpy(&part, x + i + v * kLanes, sizeof part);
      absolute[v] += part < 0.0F ? -part : part;
      squares[v] += part * part;
    }
  }
  float l1 = 0.0F, square = 0.0F;
  for (std::size_t i = whole; i < n; ++i) {
    l1 += std::abs(x[i]);
    square += x[i] * x[i];
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      l1 += absolute[v][lane];
      square += squares[v][lane];
    }
  }
  return {l1, std::sqrt(square)};
}

}  // namespace

ValueNorms::ValueNorms(const float* columns, std::int64_t outputs, std::int64_t d)
    : outputs_(outputs), d_(d) {
  panels_.lay_out(MatrixView(columns, outputs, d, Eigen::OuterStride<>(d)));
}

void ValueNorms::measure(const float* values, std::int64_t m, float* l1, float* l2) const {
  const std::size_t stride = KeyPanels::padded(static_cast<std::size_t>(outputs_));
  const std::int64_t tile =
      std::clamp<std::int64_t>(kTileFloats / static_cast<std::int64_t>(stride) / 8 * 8, 8, 64);
  const auto products =
      std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(tile) * stride);
  for (std::int64_t first = 0; first < m; first += tile) {
    const std::int64_t rows = std::min(tile, m - first);
    panels_.multiply(MatrixView(values + first * d_, rows, d_, Eigen::OuterStride<>(d_)), 0,
                     outputs_, products.get(), stride);
    for (std::int64_t row = 0; row < rows; ++row) {
      const Lengths lengths = lengths_of(products.get() + static_cast<std::size_t>(row) * stride,
                                         static_cast<std::size_t>(outputs_));
      l1[first + row] = lengths.l1;
      l2[first + row] = lengths.l2;
    }
  }
}

namespace {

constexpr std::int64_t kTileElements = std::int64_t{1} << 22;  // of v·W_O: 16 MiB
constexpr int kNormTokens = 256;  // at once, since each time W_O is made ready anew

/// The tensor as the writer wants it: float32, on the CPU, dense.
at::Tensor dense(const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); }

std::span<const float> span_of(const at::Tensor& x) {
  return {x.data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

}  // namespace

at::Tensor output_slice(const Transformer& model, int layer, std::int64_t query_head,
                        Storage storage) {
  const std::int64_t d = model.config().head_dim;
  const at::Tensor columns =
      model.output_weight(layer).slice(1, query_head * d, (query_head + 1) * d);  // [D,d]
  return as_stored(columns, storage).t();
}

at::Tensor output_slices(const Transformer& model, int layer, Storage storage) {
  const ModelConfig& config = model.config();
  at::Tensor slices =
      at::empty({config.num_heads, config.head_dim, config.hidden_size}, at::kFloat);
  for (std::int64_t head = 0; head < config.num_heads; ++head)
    slices[head].copy_(output_slice(model, layer, head, storage));
  return slices;
}

LayerWriter::LayerWriter(const Transformer& model, Storage storage, bool closed_loop,
                         TraceWriter& writer)
    : model_(model),
      storage_(storage),
      closed_loop_(closed_loop),
      writer_(writer),
      pending_(static_cast<std::size_t>(model.config().num_layers)) {}

void LayerWriter::write_output_weight(int layer) {
  const at::Tensor slices = output_slices(model_, layer, storage_);
  writer_.write_output_weight(layer, span_of(slices));
}

void LayerWriter::write(const LayerStep& step) {
  const int layer = step.layer;
  const int first = step.block.first;
  const int m = step.block.size();
  const at::Tensor value = as_stored(step.states.value[0], storage_);
  {
    const at::Tensor query = dense(as_stored(step.states.query[0], storage_));
    const at::Tensor key = dense(as_stored(step.states.key[0], storage_));
    const at::Tensor dense_value = dense(value);
    writer_.write_states(layer, first, m, span_of(query), span_of(key), span_of(dense_value));
  }
  if (step.attention.rows.defined()) {
    const at::Tensor rows = dense(step.attention.rows);
    writer_.write_attention(layer, first, m, span_of(rows));
  }
  if (!closed_loop_) {
    const at::Tensor logsumexp = dense(step.attention.logsumexp);
    writer_.write_attention_logsumexp(layer, first, m, span_of(logsumexp));
  }

  Pending& pending = pending_[static_cast<std::size_t>(layer)];
  pending.values.push_back(value);
  pending.tokens += m;
  if (pending.tokens >= kNormTokens) write_value_norms(layer);
}

void LayerWriter::finish() {
  for (int layer = 0; layer < static_cast<int>(pending_.size()); ++layer) {
    if (pending_[static_cast<std::size_t>(layer)].tokens > 0) write_value_norms(layer);
  }
}

void LayerWriter::write_value_norms(int layer) {
  Pending& pending = pending_[static_cast<std::size_t>(layer)];
  const at::Tensor value = at::cat(pending.values, 1);  // [Hk,m,d]
  const int first = pending.first;
  const int m = pending.tokens;
  pending = {first + m, 0, {}};
  const ModelConfig& config = model_.config();
  at::Tensor l1 = at::empty({config.num_heads, m}, at::kFloat);
  at::Tensor l2 = at::empty({config.num_heads, m}, at::kFloat);
  const auto own_value = [&](std::int64_t head) { return value[head / config.group_size()]; };
  if (value.is_cpu() && ValueNorms::available()) {
    parallel_loop<std::int64_t>(0, config.num_heads, [&](std::int64_t head) {
      const c10::InferenceMode no_gradients;  // of this thread
      const at::Tensor columns = output_slice(model_, layer, head, storage_).t().contiguous();
      const at::Tensor values = own_value(head).contiguous();
      ValueNorms(columns.data_ptr<float>(), config.hidden_size, config.head_dim)
          .measure(values.data_ptr<float>(), m, l1.data_ptr<float>() + head * m,
                   l2.data_ptr<float>() + head * m);
    });
  } else {
    const std::int64_t tile = std::clamp<std::int64_t>(kTileElements / config.hidden_size, 1, m);
    for (std::int64_t head = 0; head < config.num_heads; ++head) {
      const at::Tensor slice = output_slice(model_, layer, head, storage_);
      for (std::int64_t begin = 0; begin < m; begin += tile) {
        const std::int64_t end = std::min<std::int64_t>(begin + tile, m);
        const at::Tensor out = at::mm(own_value(head).slice(0, begin, end), slice);  // [rows,D]
        l1[head].slice(0, begin, end).copy_(out.norm(1, 1));
        l2[head].slice(0, begin, end).copy_(out.norm(2, 1));
      }
    }
  }
  writer_.write_value_out_norms(layer, first, m, span_of(l1), span_of(l2));
}

}  // namespace kvloupe

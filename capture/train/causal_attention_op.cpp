#include "capture/train/causal_attention_op.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "capture/train/tile_product.h"

namespace kvloupe::train {
namespace {

constexpr int kTile = 64;  // queries at a time

/// Rows of one head with what the products need beside them: [m,d] and its transpose [d,padded m].
struct HeadMatrix {
  HeadMatrix(const float* source, int rows, int columns)
      : padded((rows + kTile - 1) / kTile * kTile),
        plain(static_cast<std::size_t>(padded) * static_cast<std::size_t>(columns), 0.0F),
        transposed(plain.size(), 0.0F) {
    std::memcpy(plain.data(), source,
                static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * sizeof(float));
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        transposed[static_cast<std::size_t>(column * padded + row)] =
            source[row * columns + column];
      }
    }
  }
  int padded;
  std::vector<float> plain;
  std::vector<float> transposed;
};

struct Shape {
  std::int64_t sequences, heads, kv_heads, length, dim;
  std::int64_t group() const { return heads / kv_heads; }
};

/// One query head forward: outputs [m,d], the rows' log-sum-exp [m] and the attention that each row
/// gives token 0 [m].
void forward_head(const float* query, const HeadMatrix& key, const HeadMatrix& value, int length,
                  int dim, float scale, float* output, float* logsumexp, float* first,
                  float* scores) {
  const TileKernels& kernels = tile_kernels();
  for (int begin = 0; begin < length; begin += kTile) {
    const int rows = std::min(kTile, length - begin);
    const int keys = begin + kTile;  // padded keys are beyond the causal limit of every row
    kernels.product({query + begin * dim, dim, 1}, key.transposed.data(), key.padded, scores, keys,
                    rows, dim, keys, false);
    for (int row = 0; row < rows; ++row) {
      logsumexp[begin + row] =
          kernels.softmax_row(scores + row * keys, begin + row + 1, keys, scale);
      first[begin + row] = scores[row * keys];
    }
    kernels.product({scores, keys, 1}, value.plain.data(), dim, output + begin * dim, dim, rows,
                    keys, dim, false);
  }
}

at::Tensor as_float(const at::Tensor& tensor) { return tensor.to(at::kFloat).contiguous(); }

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static torch::autograd::tensor_list forward(torch::autograd::AutogradContext* context,
                                              const at::Tensor& query, const at::Tensor& key,
                                              const at::Tensor& value, double scale) {
    const at::Tensor q = as_float(query);
    const at::Tensor k = as_float(key);
    const at::Tensor v = as_float(value);
    const Shape shape{q.size(0), q.size(1), k.size(1), q.size(2), q.size(3)};
    at::Tensor output = at::empty_like(q);
    at::Tensor logsumexp = at::empty({shape.sequences, shape.heads, shape.length}, q.options());
    at::Tensor to_first = at::empty_like(logsumexp);
    const auto matrix = static_cast<std::size_t>(shape.length * shape.dim);
    const int length = static_cast<int>(shape.length);
    const int dim = static_cast<int>(shape.dim);
    at::parallel_for(
        0, shape.sequences * shape.kv_heads, 1, [&](std::int64_t first, std::int64_t last) {
          std::vector<float> scores(static_cast<std::size_t>(kTile) *
                                    static_cast<std::size_t>(length + kTile));
          for (std::int64_t index = first; index < last; ++index) {
            const auto kv = static_cast<std::size_t>(index);
            const HeadMatrix keys(k.data_ptr<float>() + kv * matrix, length, dim);
            const HeadMatrix values(v.data_ptr<float>() + kv * matrix, length, dim);
            for (std::int64_t member = 0; member < shape.group(); ++member) {
              const auto head = static_cast<std::size_t>(index * shape.group() + member);
              forward_head(q.data_ptr<float>() + head * matrix, keys, values, length, dim,
                           static_cast<float>(scale), output.data_ptr<float>() + head * matrix,
                           logsumexp.data_ptr<float>() + head * static_cast<std::size_t>(length),
                           to_first.data_ptr<float>() + head * static_cast<std::size_t>(length),
                           scores.data());
            }
          }
        });
    context->save_for_backward({q, k, v, output, logsumexp, to_first});
    context->saved_data["scale"] = scale;
    context->saved_data["query_type"] = static_cast<std::int64_t>(query.scalar_type());
    context->saved_data["key_type"] = static_cast<std::int64_t>(key.scalar_type());
    context->saved_data["value_type"] = static_cast<std::int64_t>(value.scalar_type());
    return {output, to_first};
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    // Either result may be unused by the loss; its gradient is then undefined, which is zero.
    const at::Tensor gradient =
        gradients[0].defined() ? as_float(gradients[0]) : at::zeros_like(saved[3]);
    const at::Tensor first_gradient =
        gradients[1].defined() ? as_float(gradients[1]) : at::zeros_like(saved[5]);
    // Σ_j A_ij dA_ij, which the softmax takes off: output · its gradient, and for token 0 once more
    // what the loss asks of its attention.
    const at::Tensor row_means =
        ((gradient * saved[3]).sum(-1) + first_gradient * saved[5]).contiguous();
    const at::Tensor& logsumexp = saved[4];
    const auto scale = static_cast<float>(context->saved_data["scale"].toDouble());
    const Shape shape{q.size(0), q.size(1), k.size(1), q.size(2), q.size(3)};
    at::Tensor dq = at::empty_like(q);
    at::Tensor dk = at::empty_like(k);
    at::Tensor dv = at::empty_like(v);
    const auto matrix = static_cast<std::size_t>(shape.length * shape.dim);
    const int length = static_cast<int>(shape.length);
    const int dim = static_cast<int>(shape.dim);
    at::parallel_for(
        0, shape.sequences * shape.kv_heads, 1, [&](std::int64_t first, std::int64_t last) {
          const TileKernels& kernels = tile_kernels();
          const auto tile =
              static_cast<std::size_t>(kTile) * static_cast<std::size_t>(length + kTile);
          std::vector<float> attention(tile);
          std::vector<float> gradient_rows(tile);
          for (std::int64_t index = first; index < last; ++index) {
            const auto kv = static_cast<std::size_t>(index);
            const HeadMatrix keys(k.data_ptr<float>() + kv * matrix, length, dim);
            const HeadMatrix values(v.data_ptr<float>() + kv * matrix, length, dim);
            const auto padded =
                static_cast<std::size_t>(keys.padded) * static_cast<std::size_t>(dim);
            std::vector<float> key_gradient(padded, 0.0F);
            std::vector<float> value_gradient(padded, 0.0F);
            for (std::int64_t member = 0; member < shape.group(); ++member) {
              const auto head = static_cast<std::size_t>(index * shape.group() + member);
              const float* query = q.data_ptr<float>() + head * matrix;
              const float* out_gradient = gradient.data_ptr<float>() + head * matrix;
              const float* normaliser =
                  logsumexp.data_ptr<float>() + head * static_cast<std::size_t>(length);
              const float* first =
                  first_gradient.data_ptr<float>() + head * static_cast<std::size_t>(length);
              const float* mean =
                  row_means.data_ptr<float>() + head * static_cast<std::size_t>(length);
              for (int begin = 0; begin < length; begin += kTile) {
                const int rows = std::min(kTile, length - begin);
                const int count = begin + kTile;
                kernels.product({query + begin * dim, dim, 1}, keys.transposed.data(), keys.padded,
                                attention.data(), count, rows, dim, count, false);
                kernels.product({out_gradient + begin * dim, dim, 1}, values.transposed.data(),
                                values.padded, gradient_rows.data(), count, rows, dim, count,
                                false);
                for (int row = 0; row < rows; ++row) {
                  gradient_rows[static_cast<std::size_t>(row * count)] += first[begin + row];
                  kernels.softmax_gradient_row(
                      attention.data() + row * count, gradient_rows.data() + row * count,
                      begin + row + 1, count, scale, normaliser[begin + row], mean[begin + row]);
                }
                kernels.product({gradient_rows.data(), count, 1}, keys.plain.data(), dim,
                                dq.data_ptr<float>() + head * matrix + begin * dim, dim, rows,
                                count, dim, false);
                kernels.product({gradient_rows.data(), 1, count}, query + begin * dim, dim,
                                key_gradient.data(), dim, count, rows, dim, true);
                kernels.product({attention.data(), 1, count}, out_gradient + begin * dim, dim,
                                value_gradient.data(), dim, count, rows, dim, true);
              }
            }
            std::memcpy(dk.data_ptr<float>() + kv * matrix, key_gradient.data(),
                        matrix * sizeof(float));
            std::memcpy(dv.data_ptr<float>() + kv * matrix, value_gradient.data(),
                        matrix * sizeof(float));
          }
        });
    const auto type = [&](const char* name) {
      return static_cast<at::ScalarType>(context->saved_data[name].toInt());
    };
    return {dq.to(type("query_type")), dk.to(type("key_type")), dv.to(type("value_type")),
            at::Tensor()};
  }
};

}  // namespace

bool fast_attention_applies(const StateTensors& states) {
  return states.query.is_cpu() && states.query.size(3) % 16 == 0;
}

AttentionResult fast_attention(const StateTensors& states, double scale) {
  const torch::autograd::tensor_list results =
      CausalAttention::apply(states.query, states.key, states.value, scale);
  return {results[0], results[1]};
}

AttentionResult plain_attention(const StateTensors& states, double scale) {
  const at::Tensor attention = causal_attention(states, scale);
  const std::int64_t group = states.query.size(1) / states.key.size(1);
  const at::Tensor values = states.value.repeat_interleave(group, 1);
  return {at::matmul(attention.to(values.scalar_type()), values), attention.select(3, 0)};
}

}  // namespace kvloupe::train

#include "capture/run/predictions.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/core/parallel_loop.h"
#include "analysis/math/numeric/exponentials.h"
#include "capture/model/row_softmax.h"

namespace kvloupe {

namespace {

constexpr std::size_t kPiece = 256;  // logits whose largest says whether to look at them

/// The k largest of the logits, largest first, into values and indices [k]; returns log Σ exp.
float summarise(std::span<float> logits, std::size_t k, float* values, std::int64_t* indices) {
  std::size_t found = 0;
  for (std::size_t first = 0; first < logits.size(); first += kPiece) {
    const auto piece = logits.subspan(first, std::min(kPiece, logits.size() - first));
    if (found == k && largest_of(piece) <= values[k - 1]) continue;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (found == k && !(piece[i] > values[k - 1])) continue;
      std::size_t place = found < k ? found++ : k - 1;
      for (; place > 0 && piece[i] > values[place - 1]; --place) {
        values[place] = values[place - 1];
        indices[place] = indices[place - 1];
      }
      values[place] = piece[i];
      indices[place] = static_cast<std::int64_t>(first + i);
    }
  }
  const float largest = values[0];
  const double sum =
      sum_of_exponentials(logits.data(), logits.size(), largest, 1.0F, /*keep=*/false);
  return static_cast<float>(static_cast<double>(largest) + std::log(sum));
}

}  // namespace

TopLogits sorted_logits(const at::Tensor& logits, int k) {
  // at::topk takes any of equal logits, so a stable sort: one model gives one trace.
  const auto [values, indices] = at::sort(logits, /*stable=*/true, /*dim=*/1, /*descending=*/true);
  return {at::logsumexp(logits, {1}, /*keepdim=*/true), values.narrow(1, 0, k).contiguous(),
          indices.narrow(1, 0, k).contiguous()};
}

TopLogits top_logits(const at::Tensor& logits, int k) {
  if (!logits.is_cpu()) return sorted_logits(logits, k);
  const std::int64_t rows = logits.size(0);
  const std::int64_t vocab = logits.size(1);
  TopLogits result{at::empty({rows, 1}, at::kFloat), at::empty({rows, k}, at::kFloat),
                   at::empty({rows, k}, at::kLong)};
  auto* const normaliser = result.normaliser.data_ptr<float>();
  auto* const values = result.values.data_ptr<float>();
  auto* const indices = result.indices.data_ptr<std::int64_t>();
  auto* const all = logits.data_ptr<float>();
  parallel_loop<std::int64_t>(0, rows, [&](std::int64_t row) {
    normaliser[row] = summarise({all + row * vocab, static_cast<std::size_t>(vocab)},
                                static_cast<std::size_t>(k), values + row * k, indices + row * k);
  });
  return result;
}

namespace {
constexpr std::int64_t kLogitTileElements = std::int64_t{1} << 23;  // logits of one tile: 32 MiB
}

Predictions predict(const Transformer& model, const at::Tensor& hidden, int first, int k,
                    std::span<const std::int32_t> next) {
  const std::int64_t m = hidden.size(1);
  const std::int64_t vocab = model.config().vocab_size;
  // A packed head is expanded for each tile.
  const std::int64_t most = model.is_packed() ? 8 * kLogitTileElements : kLogitTileElements;
  const std::int64_t tile = std::clamp<std::int64_t>(most / vocab, 1, m);
  Predictions result;
  result.k = k;
  for (std::int64_t begin = 0; begin < m; begin += tile) {
    const std::int64_t rows = std::min(tile, m - begin);
    const at::Tensor logits =
        model.logits(hidden.slice(1, begin, begin + rows))[0].to(at::kFloat);  // [rows,vocab]
    const auto [normaliser, values, indices] = top_logits(logits.contiguous(), k);
    const at::Tensor logprobs = (values - normaliser).to(at::kCPU).contiguous();
    const at::Tensor ids = indices.to(at::kCPU).contiguous();
    const auto* logprob = logprobs.data_ptr<float>();
    const auto* id = ids.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows * k; ++i) {
      if (!std::isfinite(logprob[i])) {
        throw WorkError("the logits after token " + std::to_string(first + begin + i / k) +
                        " are not finite numbers; try --dtype f32, and check the weights");
      }
      result.logprobs.push_back(logprob[i]);
      result.ids.push_back(static_cast<std::int32_t>(id[i]));
    }
    const std::int64_t known =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(next.size()) - begin, 0, rows);
    if (known == 0) continue;
    at::Tensor wanted = at::empty({known, 1}, at::kLong);
    for (std::int64_t i = 0; i < known; ++i) {
      wanted.data_ptr<std::int64_t>()[i] = next[static_cast<std::size_t>(begin + i)];
    }
    const at::Tensor losses = (normaliser.slice(0, 0, known) -
                               logits.slice(0, 0, known).gather(1, wanted.to(logits.device())))
                                  .to(at::kCPU)
                                  .contiguous();
    const auto* loss = losses.data_ptr<float>();
    result.loss.insert(result.loss.end(), loss, loss + known);
  }
  return result;
}

}  // namespace kvloupe

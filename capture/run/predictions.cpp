#include "capture/run/predictions.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/error.h"
#include "capture/run/top_logits.h"

namespace kvloupe {

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

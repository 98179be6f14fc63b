#include "capture/model/block_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace kvloupe {

namespace {

constexpr std::int64_t kTileElements = std::int64_t{1} << 22;  // logits of one tile: 16 MiB

/// What a tile's queries do not see among the keys at hand.
struct Unseen {
  at::Tensor later;   // [r,r] among the last r keys, those that come after each query
  at::Tensor beyond;  // [r,c] among the first c keys, those before each query's window; c may be 0
};

/// A tile's softmax rows and their log-sum-exp, stacked over the group: [G·r,n], [G·r].
struct TileRows {
  at::Tensor rows;
  at::Tensor logsumexp;
};

/// query [G·r,d], keys [n,d], both float32; `log_sizes` [n] is added to the logits where defined.
TileRows softmax_rows(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& log_sizes,
                      double scale, const Unseen& unseen) {
  const std::int64_t n = keys.size(0);
  const std::int64_t r = unseen.later.size(0);
  at::Tensor rows = at::mm(query, keys.t()).mul_(scale);
  if (log_sizes.defined()) rows.add_(log_sizes);
  if (r > 1) {
    rows.view({-1, r, n})
        .slice(2, n - r, n)
        .masked_fill_(unseen.later, -std::numeric_limits<float>::infinity());
  }
  if (const std::int64_t c = unseen.beyond.size(1); c > 0) {
    rows.view({-1, r, n})
        .slice(2, 0, c)
        .masked_fill_(unseen.beyond, -std::numeric_limits<float>::infinity());
  }
  const at::Tensor largest = rows.amax(1, /*keepdim=*/true);
  rows.sub_(largest).exp_();
  const at::Tensor sum = rows.sum(1, /*keepdim=*/true);
  rows.div_(sum);
  return {rows, (largest + sum.log()).squeeze(1)};
}

/// The tokens of a head's entries as a tensor, int64 [n].
at::Tensor token_tensor(const LayerCache& cache, std::int64_t head, at::Device device) {
  const std::vector<std::int32_t>& tokens = cache.tokens(head);
  at::Tensor result = at::empty({std::ssize(tokens)}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), result.data_ptr<std::int64_t>());
  return result.to(device);
}

/// The first of a head's entries that a query of this token sees through the window.
std::int64_t first_seen(const LayerCache& cache, std::int64_t head, std::int64_t query_token,
                        std::int64_t window) {
  if (window == 0) return 0;
  const std::vector<std::int32_t>& tokens = cache.tokens(head);
  return std::lower_bound(tokens.begin(), tokens.end(), query_token - window + 1) - tokens.begin();
}

/// What turns a head's entries from their token index to their place, [n,d].
Rotation turn_to_places(const Rotation& backward, const at::Tensor& tokens) {
  const at::Tensor moved = tokens - at::arange(tokens.size(0), tokens.options());
  return {backward.cosine.index_select(0, moved), backward.sine.index_select(0, moved)};
}

}  // namespace

at::Tensor as_stored(const at::Tensor& x, Storage storage) {
  const at::Tensor wide = x.to(at::kFloat);
  if (storage == Storage::float32 || x.scalar_type() == at::kHalf) return wide;
  const at::Tensor rounded = wide.to(at::kHalf).to(at::kFloat);
  return at::where(rounded.isinf(), wide, rounded);
}

BlockAttention attend_block(const at::Tensor& query, const LayerCache& cache,
                            const AttentionOptions& options, const Progress& progress) {
  const std::int64_t query_heads = query.size(0);
  const std::int64_t m = query.size(1);
  const std::int64_t d = query.size(2);
  const std::int64_t group = query_heads / cache.heads();
  const auto wide = query.options().dtype(at::kFloat);
  // A 16-bit state fits float16 but for its last bits below 2^-24, far under float32's rounding of
  // a logit: one product serves the model and the trace. Float32 states need both.
  const Storage storage = options.storage;
  const bool exact = storage == Storage::float32 || query.scalar_type() != at::kFloat;

  BlockAttention result;
  result.outputs = at::empty({query_heads, m, d}, query.options());
  result.logsumexp = at::empty({query_heads, m}, wide);
  if (options.keep_rows) result.rows = at::zeros({query_heads, m, cache.seen()}, wide);

  for (std::int64_t head = 0; head < cache.heads(); ++head) {
    const std::int64_t n = cache.length(head);
    const std::int64_t before = n - m;  // entries older than the block
    const bool complete = n == cache.seen();
    const bool in_place = complete || options.backward == nullptr;
    const at::Tensor tokens =
        complete && options.window == 0 ? at::Tensor() : token_tensor(cache, head, query.device());
    const Rotation turn = in_place ? Rotation() : turn_to_places(*options.backward, tokens);
    const auto placed = [&](const at::Tensor& x) { return in_place ? x : rotate(x, turn); };
    const at::Tensor stored_keys = placed(as_stored(cache.keys(head), storage));
    const at::Tensor keys = exact ? stored_keys : placed(cache.keys(head).to(at::kFloat));
    const at::Tensor values = cache.values(head);
    const at::Tensor log_sizes = cache.log_sizes(head);
    // Of a windowed model no row is wider than its window and the block: a cache that has dropped
    // what lies beyond is worked through in the same tiles, and gives the same bits.
    const std::int64_t width = options.window > 0 ? std::min(n, options.window - 1 + m) : n;
    const std::int64_t tile = std::clamp<std::int64_t>(kTileElements / (group * width), 1, m);
    const std::int64_t first_query_head = head * group;
    const std::int64_t end_query_head = first_query_head + group;
    for (std::int64_t first = 0; first < m; first += tile) {
      progress.check();
      const std::int64_t end = std::min(first + tile, m);
      const std::int64_t r = end - first;
      const std::int64_t visible = before + end;
      const std::int64_t last_token = cache.seen() - m + end - 1;
      const std::int64_t oldest = first_seen(cache, head, last_token - r + 1, options.window);
      // Older than what the last query sees, and so unseen by some of the tile.
      const std::int64_t partly = first_seen(cache, head, last_token, options.window);
      Unseen unseen{at::ones({r, r}, wide.dtype(at::kBool)).triu(1), at::empty({r, 0}, at::kBool)};
      if (partly > oldest) {
        unseen.beyond = tokens.slice(0, oldest, partly).unsqueeze(0) <=
                        tokens.slice(0, before + first, visible).unsqueeze(1) - options.window;
      }
      const at::Tensor tile_query =
          query.slice(0, first_query_head, end_query_head).slice(1, first, end);  // [G,r,d]
      const auto rows_of = [&](const at::Tensor& q, const at::Tensor& k) {
        const at::Tensor turned = in_place
                                      ? q
                                      : rotate(q, {turn.cosine.slice(0, before + first, visible),
                                                   turn.sine.slice(0, before + first, visible)});
        return softmax_rows(turned.reshape({-1, d}), k.slice(0, oldest, visible),
                            log_sizes.defined() ? log_sizes.slice(0, oldest, visible) : log_sizes,
                            options.scale, unseen);
      };
      const TileRows stored = rows_of(as_stored(tile_query, storage), stored_keys);
      const TileRows model = exact ? stored : rows_of(tile_query.to(at::kFloat), keys);

      const auto place = [&](const at::Tensor& whole) {
        return whole.slice(0, first_query_head, end_query_head).slice(1, first, end);
      };
      const at::Tensor outputs =
          at::mm(model.rows.to(values.scalar_type()), values.slice(0, oldest, visible));
      place(result.outputs).copy_(outputs.view({group, r, d}));
      place(result.logsumexp).copy_(stored.logsumexp.view({group, r}));
      if (!options.keep_rows) continue;
      const at::Tensor rows = stored.rows.view({group, r, visible - oldest});
      if (complete) {
        place(result.rows).slice(2, oldest, visible).copy_(rows);
      } else {
        place(result.rows).index_copy_(2, tokens.slice(0, oldest, visible), rows);
      }
    }
  }
  return result;
}

}  // namespace kvloupe

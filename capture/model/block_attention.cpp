#include "capture/model/block_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "analysis/trace/half.h"
#include "capture/model/row_attention.h"

namespace kvloupe {

namespace {

constexpr std::int64_t kTileElements = std::int64_t{1} << 22;  // logits of one tile: 16 MiB

/// Rounds to float16, except numbers that overflow it.
void round_through_halves(const float* from, float* to, std::size_t size) {
  constexpr std::size_t kPiece = 1024;
  std::uint16_t halves[kPiece];
  for (std::size_t first = 0; first < size; first += kPiece) {
    const std::size_t count = std::min(kPiece, size - first);
    halves_from_floats({from + first, count}, {halves, count});
    floats_from_halves({halves, count}, {to + first, count});
    for (std::size_t i = first; i < first + count; ++i) to[i] = std::isinf(to[i]) ? from[i] : to[i];
  }
}

/// The keys at hand that a tile's queries do not see.
struct Unseen {
  at::Tensor later;   // [r,r] among the last r keys, those that come after each query
  at::Tensor beyond;  // [r,c] among the first c keys, those before each query's window; c may be 0
};

/// A tile's softmax rows and their log-sum-exp, stacked over the group: [G·r,n], [G·r].
struct TileRows {
  at::Tensor rows;
  at::Tensor logsumexp;
};

/// query [G·r,d], keys [n,d], both float32; `log_sizes` [n] is added to the logits where defined,
/// and the `sinks` [G] take part in the softmax.
TileRows softmax_rows(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& log_sizes,
                      const AttentionOptions& options, const at::Tensor& sinks,
                      const Unseen& unseen) {
  const std::int64_t n = keys.size(0);
  const std::int64_t r = unseen.later.size(0);
  at::Tensor rows = at::mm(query, keys.t()).mul_(options.scale);
  if (options.softcap > 0.0) rows.div_(options.softcap).tanh_().mul_(options.softcap);
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
  at::Tensor largest = rows.amax(1, /*keepdim=*/true);
  at::Tensor of_rows;  // [G·r,1]
  if (sinks.defined()) {
    of_rows = sinks.repeat_interleave(r).unsqueeze(1);
    largest = at::maximum(largest, of_rows);
  }
  rows.sub_(largest).exp_();
  at::Tensor sum = rows.sum(1, /*keepdim=*/true);
  if (sinks.defined()) sum = sum + (of_rows - largest).exp();
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

/// The rotation of a head's entries from their token index to their place, [n,d].
Rotation turn_to_places(const Rotation& backward, const at::Tensor& tokens) {
  const at::Tensor moved = tokens - at::arange(tokens.size(0), tokens.options());
  return {backward.cosine.index_select(0, moved), backward.sine.index_select(0, moved)};
}

/// One head's part of a block's attention.
class HeadAttention {
 public:
  HeadAttention(const at::Tensor& query, const LayerCache& cache, std::int64_t head,
                const AttentionOptions& options, BlockAttention& result)
      : query_(query.slice(0, head * query.size(0) / cache.heads(),
                           (head + 1) * query.size(0) / cache.heads())),
        cache_(cache),
        head_(head),
        options_(options),
        result_(result),
        complete_(cache.length(head) == cache.seen()),
        in_place_(complete_ || options.backward == nullptr) {
    if (!in_place_) {
      turn_ = turn_to_places(*options.backward, token_tensor(cache, head, query.device()));
    }
    // A 16-bit state fits float16 except for bits below 2^-24, far under float32's rounding of a
    // logit. So one product serves the model and the trace. Float32 states need two products.
    if (options.sink_logits.defined()) sinks_ = own(options.sink_logits).contiguous();
    exact_ = options.storage == Storage::float32 || query.scalar_type() != at::kFloat;
  }

  /// In plain tensors, on any device and in any type.
  void in_tensors(const Progress& progress) const;
  /// In loops for the CPU, float32.
  void in_rows(RowAttention& rows, const Progress& progress) const;

 private:
  /// The head's query heads in a result [Hq,…].
  at::Tensor own(const at::Tensor& whole) const {
    return whole.slice(0, head_ * query_.size(0), (head_ + 1) * query_.size(0));
  }
  /// Queries [G,r,d] of the block's tokens first … end − 1, as the logits take them.
  at::Tensor placed(const at::Tensor& queries, std::int64_t first, std::int64_t end) const {
    if (in_place_) return queries;
    const std::int64_t before = cache_.length(head_) - query_.size(1);
    return rotate(queries, {turn_.cosine.slice(0, before + first, before + end),
                            turn_.sine.slice(0, before + first, before + end)});
  }
  at::Tensor placed_keys(const at::Tensor& keys) const {
    return in_place_ ? keys : rotate(keys, turn_);
  }

  const at::Tensor query_;  // [G,m,d]
  const LayerCache& cache_;
  const std::int64_t head_;
  const AttentionOptions& options_;
  BlockAttention& result_;
  const bool complete_;  // the head holds all tokens so far
  const bool in_place_;  // nothing is to be turned
  bool exact_ = true;
  at::Tensor sinks_;  // [G], undefined without sink logits
  Rotation turn_;
};

void HeadAttention::in_rows(RowAttention& rows, const Progress& progress) const {
  const std::int64_t m = query_.size(1);
  const std::int64_t n = cache_.length(head_);
  std::vector<SeenEntries> visible;
  for (std::int64_t i = 0; i < m; ++i) {
    visible.push_back(
        {first_seen(cache_, head_, cache_.seen() - m + i, options_.window), n - m + i + 1});
  }
  const at::Tensor log_sizes = cache_.log_sizes(head_);
  const at::Tensor values = cache_.values(head_).contiguous();
  const std::int64_t place = head_ * query_.size(0) * m;  // in the results
  RowResults for_model{.values = values.data_ptr<float>(),
                       .outputs = result_.outputs.data_ptr<float>() + place * query_.size(2)};
  RowResults for_trace = exact_ ? for_model : RowResults();
  for_trace.logsumexp = result_.logsumexp.data_ptr<float>() + place;
  if (options_.keep_rows) {
    for_trace.rows = own(result_.rows).data_ptr<float>();
    for_trace.row_length = cache_.seen();
    if (!complete_) for_trace.columns = cache_.tokens(head_).data();
  }
  const auto attend = [&](const at::Tensor& query, const at::Tensor& key, const RowResults& to) {
    const at::Tensor queries = placed(query, 0, m).contiguous();
    const at::Tensor keys = placed_keys(key).contiguous();
    rows.attend(
        {query_.size(0), m, query_.size(2), n, queries.data_ptr<float>(), keys.data_ptr<float>(),
         log_sizes.defined() ? log_sizes.data_ptr<float>() : nullptr, visible,
         LogitRule{options_.scale, options_.softcap, LogitRule::kNoSink},
         sinks_.defined() ? sinks_.data_ptr<float>() : nullptr},
        to, progress);
  };
  attend(as_stored(query_, options_.storage), as_stored(cache_.keys(head_), options_.storage),
         for_trace);
  if (!exact_) attend(query_, cache_.keys(head_), for_model);
}

void HeadAttention::in_tensors(const Progress& progress) const {
  const std::int64_t group = query_.size(0);
  const std::int64_t m = query_.size(1);
  const std::int64_t d = query_.size(2);
  const std::int64_t n = cache_.length(head_);
  const std::int64_t before = n - m;  // entries older than the block
  const std::int64_t window = options_.window;
  const at::Tensor stored_keys = placed_keys(as_stored(cache_.keys(head_), options_.storage));
  const at::Tensor keys = exact_ ? stored_keys : placed_keys(cache_.keys(head_).to(at::kFloat));
  const at::Tensor values = cache_.values(head_);
  const at::Tensor log_sizes = cache_.log_sizes(head_);
  at::Tensor tokens;  // [n], undefined where they are 0 … n − 1 and no window asks
  if (!complete_ || window > 0) tokens = token_tensor(cache_, head_, query_.device());
  // No row of a windowed model is wider than its window and the block. A cache that has dropped the
  // entries beyond goes through the same tiles and gives the same bits.
  const std::int64_t width = window > 0 ? std::min(n, window - 1 + m) : n;
  const std::int64_t tile = std::clamp<std::int64_t>(kTileElements / (group * width), 1, m);
  for (std::int64_t first = 0; first < m; first += tile) {
    progress.check();
    const std::int64_t end = std::min(first + tile, m);
    const std::int64_t r = end - first;
    const std::int64_t visible = before + end;
    const std::int64_t last_token = cache_.seen() - m + end - 1;
    const std::int64_t oldest = first_seen(cache_, head_, last_token - r + 1, window);
    // These entries are too old for the last query, so some queries of the tile do not see them.
    const std::int64_t partly = first_seen(cache_, head_, last_token, window);
    const auto bits = query_.options().dtype(at::kBool);
    Unseen unseen{at::ones({r, r}, bits).triu(1), at::empty({r, 0}, at::kBool)};
    if (partly > oldest) {
      unseen.beyond = tokens.slice(0, oldest, partly).unsqueeze(0) <=
                      tokens.slice(0, before + first, visible).unsqueeze(1) - window;
    }
    const at::Tensor tile_query = query_.slice(1, first, end);  // [G,r,d]
    const auto rows_of = [&](const at::Tensor& q, const at::Tensor& k) {
      return softmax_rows(placed(q, first, end).reshape({-1, d}), k.slice(0, oldest, visible),
                          log_sizes.defined() ? log_sizes.slice(0, oldest, visible) : log_sizes,
                          options_, sinks_, unseen);
    };
    const TileRows stored = rows_of(as_stored(tile_query, options_.storage), stored_keys);
    const TileRows model = exact_ ? stored : rows_of(tile_query.to(at::kFloat), keys);

    const auto place = [&](const at::Tensor& whole) { return own(whole).slice(1, first, end); };
    const at::Tensor outputs =
        at::mm(model.rows.to(values.scalar_type()), values.slice(0, oldest, visible));
    place(result_.outputs).copy_(outputs.view({group, r, d}));
    place(result_.logsumexp).copy_(stored.logsumexp.view({group, r}));
    if (!options_.keep_rows) continue;
    const at::Tensor rows = stored.rows.view({group, r, visible - oldest});
    if (complete_) {
      place(result_.rows).slice(2, oldest, visible).copy_(rows);
    } else {
      place(result_.rows).index_copy_(2, tokens.slice(0, oldest, visible), rows);
    }
  }
}

}  // namespace

at::Tensor as_stored(const at::Tensor& x, Storage storage) {
  const at::Tensor wide = x.to(at::kFloat);
  if (storage == Storage::float32 || x.scalar_type() == at::kHalf) return wide;
  if (wide.is_cpu()) {
    const at::Tensor dense = wide.contiguous();
    at::Tensor result = at::empty_like(dense);
    round_through_halves(dense.data_ptr<float>(), result.data_ptr<float>(),
                         static_cast<std::size_t>(dense.numel()));
    return result;
  }
  const at::Tensor rounded = wide.to(at::kHalf).to(at::kFloat);
  return at::where(rounded.isinf(), wide, rounded);
}

BlockAttention attend_block(const at::Tensor& query, const LayerCache& cache,
                            const AttentionOptions& options, const Progress& progress) {
  const std::int64_t query_heads = query.size(0);
  const std::int64_t m = query.size(1);
  const auto wide = query.options().dtype(at::kFloat);
  BlockAttention result;
  result.outputs = at::empty({query_heads, m, query.size(2)}, query.options());
  result.logsumexp = at::empty({query_heads, m}, wide);
  if (options.keep_rows) result.rows = at::zeros({query_heads, m, cache.seen()}, wide);
  const bool in_rows = !options.plain && query.is_cpu() && query.scalar_type() == at::kFloat &&
                       RowAttention::available();
  RowAttention rows;
  for (std::int64_t head = 0; head < cache.heads(); ++head) {
    const HeadAttention attention(query, cache, head, options, result);
    if (in_rows) {
      attention.in_rows(rows, progress);
    } else {
      attention.in_tensors(progress);
    }
  }
  return result;
}

}  // namespace kvloupe

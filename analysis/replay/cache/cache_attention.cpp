#include "analysis/replay/cache/cache_attention.h"

#include <algorithm>
#include <utility>

#include "analysis/math/numeric/exponentials.h"
#include "analysis/math/numeric/row_products.h"
#include "analysis/policy/kit/shared_prefix.h"

namespace kvloupe {

namespace {
constexpr Eigen::Index kTileRows = 32;  // 32 rows over 4096 entries fit a core's second-level cache
constexpr Eigen::Index kFewRows = 8;    // for fewer, keys are not laid out anew
}  // namespace

CacheAttention::CacheAttention(const ModelInfo& model, const LayerAttention& attention,
                               HeadLoop for_heads)
    : group_size_(model.group_size()),
      reach_(model.reach()),
      for_heads_(std::move(for_heads)),
      heads_(static_cast<std::size_t>(model.num_heads)) {
  for (int head = 0; head < model.num_heads; ++head) rules_.push_back(attention.of(head));
  for (int head = 0; head < model.num_kv_heads; ++head) {
    key_heads_.push_back(std::make_unique<KeyHead>());
  }
}

void CacheAttention::begin(const std::vector<CacheView>& caches,
                           const std::vector<MatrixView>& queries, std::vector<int> hidden) {
  caches_ = &caches;
  queries_ = &queries;
  hidden_ = std::move(hidden);
  for (QueryHead& head : heads_) head.rows_known = head.sums_known = false;
  for (const auto& head : key_heads_) head->known = head->multiplied = false;
}

const KeyPanels& CacheAttention::panels_of(int head) {
  KeyHead& keys = *key_heads_[static_cast<std::size_t>(head)];
  const std::lock_guard lock(keys.laying_out);
  if (!keys.known) keys.panels.lay_out((*caches_)[static_cast<std::size_t>(head)].keys);
  keys.known = true;
  return keys.panels;
}

const Matrix& CacheAttention::products_of(int head) {
  KeyHead& own = *key_heads_[static_cast<std::size_t>(head)];
  const std::lock_guard lock(own.laying_out);
  if (own.multiplied) return own.products;
  const MatrixView& keys = (*caches_)[static_cast<std::size_t>(head)].keys;
  Matrix asking(group_size_, keys.cols());
  for (int i = 0; i < group_size_; ++i)
    asking.row(i) = (*queries_)[static_cast<std::size_t>(head * group_size_ + i)].row(0);
  if (own.products.cols() < keys.rows()) own.products.resize(group_size_, keys.rows() * 3 / 2);
  const auto size = [](Eigen::Index number) { return static_cast<std::size_t>(number); };
  multiply_rows({size(group_size_), size(keys.rows()), size(keys.cols()), asking.data(),
                 size(asking.outerStride()), keys.data(), size(keys.outerStride()),
                 own.products.data(), size(own.products.outerStride())});
  own.multiplied = true;
  return own.products;
}

Eigen::Index CacheAttention::first_entry(const CacheView& cache, std::int32_t query) const {
  if (reach_.all()) return 0;
  const auto& tokens = cache.tokens;
  return std::lower_bound(tokens.begin(), tokens.end(), first_seen(query, reach_)) - tokens.begin();
}

template <typename Row>
void CacheAttention::exponential_rows(int query_head, Eigen::Index first, Eigen::Index count,
                                      Matrix& tile, const Row& row) {
  const int head = query_head / group_size_;
  const CacheView& cache = (*caches_)[static_cast<std::size_t>(head)];
  const MatrixView& queries = (*queries_)[static_cast<std::size_t>(query_head)];
  const Eigen::Index before = cache.keys.rows() - queries.rows();  // entries older than the block
  const Eigen::Index seen = before + first + count;                // by the last row of the tile
  const auto token_of = [&](Eigen::Index row) {
    return cache.tokens[static_cast<std::size_t>(before + row)];
  };
  const Eigen::Index oldest = first_entry(cache, token_of(first));  // of any of the tile
  const auto width =
      static_cast<Eigen::Index>(KeyPanels::padded(static_cast<std::size_t>(cache.keys.rows())));
  if (tile.rows() < count || tile.cols() < width) tile.resize(count, width);
  const LogitRule& rule = rules_[static_cast<std::size_t>(query_head)];
  const auto of_products = static_cast<float>(rule.scale);
  const MatrixView asking = rows(queries, first, count);
  if (queries.rows() == 1) {
    tile.block(0, oldest, 1, seen - oldest) =
        products_of(head).block(query_head % group_size_, oldest, 1, seen - oldest);
  } else if (count >= kFewRows && KeyPanels::available()) {
    panels_of(head).multiply(asking, oldest, seen, tile.data(),
                             static_cast<std::size_t>(tile.outerStride()));
  } else {
    tile.block(0, oldest, count, seen - oldest).noalias() =
        asking * cache.keys.middleRows(oldest, seen - oldest).transpose();
  }
  for (Eigen::Index r = 0; r < count; ++r) {
    const auto from = static_cast<std::size_t>(first_entry(cache, token_of(first + r)));
    const auto end = static_cast<std::size_t>(before + first + r + 1);
    float* values = tile.data() + r * tile.outerStride();
    const std::span<float> seen(values + from, end - from);
    float scale = of_products;
    if (!cache.log_sizes.empty() || !rule.plain()) {
      to_logits(Eigen::Map<Eigen::VectorXf>(seen.data(), std::ssize(seen)), rule);
      for (std::size_t i = from; i < end && !cache.log_sizes.empty(); ++i) {
        values[i] += cache.log_sizes[i];
      }
      scale = 1.0F;
    }
    double sum = 0.0;
    if (!seen.empty()) {
      const float shift = softmax_shift(largest_of(seen), rule);
      sum = with_sink(exponentials(seen, shift, scale), static_cast<double>(shift), rule);
    }
    row(values, from, end, sum);
  }
}

MatrixView CacheAttention::last_rows(int query_head, int count) {
  QueryHead& head = heads_[static_cast<std::size_t>(query_head)];
  const MatrixView& queries = (*queries_)[static_cast<std::size_t>(query_head)];
  const Eigen::Index wanted = std::min<Eigen::Index>(count, queries.rows());
  if (!head.rows_known || head.rows.rows() < wanted) {
    const CacheView& cache = (*caches_)[static_cast<std::size_t>(query_head / group_size_)];
    const auto n = static_cast<std::size_t>(cache.keys.rows());
    head.rows.resize(wanted, static_cast<Eigen::Index>(KeyPanels::padded(n)));
    exponential_rows(query_head, queries.rows() - wanted, wanted, head.rows,
                     [&](float* values, std::size_t from, std::size_t end, double sum) {
                       const auto inverse = static_cast<float>(1.0 / sum);
                       std::fill(values, values + from, 0.0F);
                       for (std::size_t i = from; i < end; ++i) values[i] *= inverse;
                       std::fill(values + end, values + n, 0.0F);
                     });
    head.rows_known = true;
  }
  const Eigen::Index n = (*caches_)[static_cast<std::size_t>(query_head / group_size_)].keys.rows();
  const Eigen::Index stride = head.rows.outerStride();
  const Eigen::Index skip = hidden(query_head);
  return {head.rows.data() + (head.rows.rows() - wanted) * stride + skip, wanted, n - skip,
          Eigen::OuterStride<>(stride)};
}

const std::vector<float>& CacheAttention::column_sums(int query_head) {
  const int group = query_head / group_size_;
  QueryHead& head = heads_[static_cast<std::size_t>(query_head)];
  const std::lock_guard lock(key_heads_[static_cast<std::size_t>(group)]->summing);
  if (head.sums_known) return head.sums;
  // A few rows are done sooner than a loop is shared out.
  const bool together = for_heads_ && group_size_ > 1 &&
                        (*queries_)[static_cast<std::size_t>(query_head)].rows() >= kFewRows;
  if (together) {
    for_heads_(group_size_, [&](int i) { sum_columns(group * group_size_ + i); });
  } else {
    sum_columns(query_head);
  }
  return head.sums;
}

void CacheAttention::sum_columns(int query_head) {
  QueryHead& head = heads_[static_cast<std::size_t>(query_head)];
  if (head.sums_known) return;
  const std::span<const std::int32_t> tokens =
      (*caches_)[static_cast<std::size_t>(query_head / group_size_)].tokens;
  const auto m = static_cast<int>((*queries_)[static_cast<std::size_t>(query_head)].rows());
  // All tokens up to the last one: nothing was evicted, nor merged, which takes an entry away. A
  // few rows are summed sooner than looked up.
  const bool whole = shared_ != nullptr && m >= kFewRows && hidden(query_head) == 0 &&
                     std::ssize(tokens) == tokens.back() + 1;
  const auto compute = [&] { return summed_columns(query_head); };
  head.sums = whole ? shared_->column_sums(layer_, query_head,
                                           {tokens.back() + 1 - m, tokens.back() + 1}, compute)
                    : compute();
  head.sums_known = true;
}

std::vector<float> CacheAttention::summed_columns(int query_head) {
  QueryHead& head = heads_[static_cast<std::size_t>(query_head)];
  const CacheView& cache = (*caches_)[static_cast<std::size_t>(query_head / group_size_)];
  const Eigen::Index m = (*queries_)[static_cast<std::size_t>(query_head)].rows();
  const auto skip = static_cast<std::size_t>(hidden(query_head));
  std::vector<float> sums(static_cast<std::size_t>(cache.keys.rows()) - skip, 0.0F);
  // Rows of the block that come before all that is not hidden give nothing to it.
  const Eigen::Index before = cache.keys.rows() - m;
  for (Eigen::Index first = std::max<Eigen::Index>(hidden(query_head) - before, 0); first < m;
       first += kTileRows) {
    exponential_rows(query_head, first, std::min(kTileRows, m - first), head.tile,
                     [&](const float* values, std::size_t from, std::size_t end, double sum) {
                       const std::size_t begin = std::max(from, skip);
                       add_scaled(sums.data() + (begin - skip), values + begin, end - begin,
                                  static_cast<float>(1.0 / sum));
                     });
  }
  return sums;
}

}  // namespace kvloupe

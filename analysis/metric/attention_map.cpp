#include "analysis/metric/attention_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace kvloupe {

namespace {
constexpr Eigen::Index kTileQueries = 128;
constexpr Eigen::Index kTileKeys = 1024;  // a tile of logits stays in the second-level cache

/// [first, end) of the cells that pixel `i` of `pixels` shows of `cells`.
struct Span {
  Eigen::Index first, end;
};
Span cells_of(Eigen::Index i, Eigen::Index pixels, Eigen::Index cells) {
  const Eigen::Index first = i * cells / pixels;
  return {first, std::max(first + 1, (i + 1) * cells / pixels)};
}

/// Pools a stripe of query rows that one row of pixels shows.
class PixelRow {
 public:
  PixelRow(const AttentionWindow& window, std::vector<Span> columns)
      : window_(window), columns_(std::move(columns)) {}

  void clear() {
    const auto width = static_cast<Eigen::Index>(columns_.size());
    const bool max = window_.pooling == Pooling::max;
    pooled_.setConstant(width, max ? -std::numeric_limits<double>::infinity() : 0.0);
    counts_.setZero(width);
  }

  /// Adds one query's logits of keys [first, first + row.size()), those it sees only; `shift` is
  /// its log-sum-exp, 0 for logits. The row is overwritten.
  template <typename Row>
  void add(Row row, Eigen::Index first, float shift) {
    const bool mean = window_.pooling == Pooling::mean;
    row.array() -= shift;
    if (mean && window_.unit == AttentionUnit::probability) row = row.array().exp();
    const Eigen::Index end = first + row.size();
    // The first pixel that reaches into this tile.
    auto column = std::partition_point(columns_.begin(), columns_.end(),
                                       [&](const Span& span) { return span.end <= first; });
    for (; column != columns_.end() && column->first < end; ++column) {
      const Eigen::Index from = std::max(column->first, first), to = std::min(column->end, end);
      const Eigen::Index x = column - columns_.begin();
      const auto cells = row.segment(from - first, to - from);
      if (mean) {
        pooled_[x] += cells.sum();
      } else {
        pooled_[x] = std::max(pooled_[x], static_cast<double>(cells.maxCoeff()));
      }
      counts_[x] += static_cast<double>(to - from);
    }
  }

  float value(Eigen::Index x) const {
    if (counts_[x] == 0.0) return std::numeric_limits<float>::quiet_NaN();
    if (window_.pooling == Pooling::mean) return static_cast<float>(pooled_[x] / counts_[x]);
    // exp grows with its argument: the largest probability is that of the largest logit.
    return static_cast<float>(window_.unit == AttentionUnit::probability ? std::exp(pooled_[x])
                                                                         : pooled_[x]);
  }

 private:
  const AttentionWindow& window_;
  std::vector<Span> columns_;  // keys of each pixel, ascending
  Eigen::ArrayXd pooled_, counts_;
};
}  // namespace

Matrix attention_map(const MatrixView& queries, const MatrixView& keys, float scale,
                     std::span<const float> logsumexp, const AttentionWindow& window,
                     Progress& progress) {
  const Eigen::Index rows = window.query_end - window.query_first;
  const Eigen::Index columns = window.key_end - window.key_first;
  const bool probability = window.unit == AttentionUnit::probability;
  if (rows <= 0 || columns <= 0 || window.query_first < 0 || window.key_first < 0 ||
      window.query_end > queries.rows() || window.key_end > keys.rows() || window.height <= 0 ||
      window.width <= 0 || (probability && std::ssize(logsumexp) != queries.rows())) {
    throw std::invalid_argument("attention_map: a window outside the matrix");
  }
  std::vector<Span> spans;
  for (Eigen::Index x = 0; x < window.width; ++x) {
    const Span span = cells_of(x, window.width, columns);
    spans.push_back({window.key_first + span.first, window.key_first + span.end});
  }
  PixelRow pixels(window, std::move(spans));
  Matrix map(window.height, window.width);
  Matrix logits;
  progress.set_total(rows);
  Span previous{-1, -1};
  for (Eigen::Index y = 0; y < window.height; ++y) {
    const Span stripe = cells_of(y, window.height, rows);
    if (stripe.first == previous.first && stripe.end == previous.end) {  // enlarged: repeat
      map.row(y) = map.row(y - 1);
      continue;
    }
    previous = stripe;
    pixels.clear();
    for (Eigen::Index at = stripe.first; at < stripe.end; at += kTileQueries) {
      const Eigen::Index q = window.query_first + at;
      const Eigen::Index count = std::min(kTileQueries, stripe.end - at);
      const Eigen::Index visible_end = std::min<Eigen::Index>(window.key_end, q + count);
      for (Eigen::Index k = window.key_first; k < visible_end; k += kTileKeys) {
        progress.check();
        const Eigen::Index width = std::min(kTileKeys, visible_end - k);
        logits.noalias() = queries.middleRows(q, count) * keys.middleRows(k, width).transpose();
        logits *= scale;
        for (Eigen::Index r = 0; r < count; ++r) {
          const Eigen::Index seen = std::min(width, q + r + 1 - k);
          if (seen <= 0) continue;
          pixels.add(logits.row(r).head(seen), k,
                     probability ? logsumexp[static_cast<std::size_t>(q + r)] : 0.0F);
        }
      }
      progress.advance(count);
    }
    for (Eigen::Index x = 0; x < window.width; ++x) map(y, x) = pixels.value(x);
  }
  return map;
}

}  // namespace kvloupe

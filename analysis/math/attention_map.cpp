#include "analysis/math/attention_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "analysis/math/numeric/exponentials.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

namespace {
constexpr Eigen::Index kMapTileQueries = 128;
constexpr Eigen::Index kTileKeys = 1024;  // a tile of logits stays in the second-level cache

/// [first, end) of the cells that pixel `i` of `pixels` shows of `cells`.
struct Span {
  Eigen::Index first, end;
};
Span cells_of(Eigen::Index i, Eigen::Index pixels, Eigen::Index cells) {
  const Eigen::Index first = i * cells / pixels;
  return {first, std::max(first + 1, (i + 1) * cells / pixels)};
}

/// Pools the query rows [first, end) that one row of pixels shows. Rows are combined cell by cell
/// first, which vectorises; only their combination is cut into pixels.
class PixelRow {
 public:
  PixelRow(const AttentionWindow& window, const std::vector<Span>& columns, Span queries)
      : window_(window), columns_(columns), queries_(queries), combined_(kTileKeys) {
    const auto width = static_cast<Eigen::Index>(columns.size());
    pooled_.setConstant(width, nothing());
  }

  /// Begins a tile of keys.
  void begin() { combined_.setConstant(static_cast<float>(nothing())); }

  /// Adds one query's logits of keys of the tile from `from` on, those it sees only; `shift` is its
  /// log-sum-exp, 0 for logits. The row is overwritten.
  void add(Eigen::Index from, std::span<float> row, float shift) {
    Eigen::Map<Eigen::ArrayXf> cells(row.data(), std::ssize(row));
    auto combined = combined_.segment(from, cells.size());
    if (window_.pooling == Pooling::max) {
      combined = combined.max(cells - shift);
    } else if (window_.unit == AttentionUnit::logit) {
      combined += cells;
    } else {
      exponentials(row, shift);
      combined += cells;
    }
  }

  /// Ends a tile of keys [first, end).
  void end(Eigen::Index first, Eigen::Index end) {
    const bool max = window_.pooling == Pooling::max;
    auto column = std::partition_point(columns_.begin(), columns_.end(),
                                       [&](const Span& span) { return span.end <= first; });
    for (; column != columns_.end() && column->first < end; ++column) {
      const Eigen::Index from = std::max(column->first, first), to = std::min(column->end, end);
      double& pixel = pooled_[column - columns_.begin()];
      for (Eigen::Index key = from; key < to; ++key) {
        const double cell = combined_[key - first];
        pixel = max ? std::max(pixel, cell) : pixel + cell;
      }
    }
  }

  float value(Eigen::Index x) const {
    const double cells = visible_cells(columns_[static_cast<std::size_t>(x)]);
    if (cells == 0.0) return std::numeric_limits<float>::quiet_NaN();
    const bool max = window_.pooling == Pooling::max;
    const double pooled = max ? pooled_[x] : pooled_[x] / cells;
    if (window_.unit == AttentionUnit::logit) return static_cast<float>(pooled);
    // exp grows with its argument: the largest probability is that of the largest logit. A row's
    // log-sum-exp is rounded on its own way, which can leave a probability a little above 1.
    return static_cast<float>(std::min(max ? std::exp(pooled) : pooled, 1.0));
  }

  Span queries() const { return queries_; }

 private:
  double nothing() const {
    return window_.pooling == Pooling::max ? -std::numeric_limits<double>::infinity() : 0.0;
  }
  double visible_cells(const Span& keys) const {
    double cells = 0.0;
    for (Eigen::Index key = keys.first; key < keys.end; ++key) {
      const Eigen::Index end =
          first_unseeing(static_cast<int>(key), window_.seen, static_cast<int>(queries_.end));
      cells += static_cast<double>(std::max<Eigen::Index>(0, end - std::max(queries_.first, key)));
    }
    return cells;
  }

  const AttentionWindow& window_;
  const std::vector<Span>& columns_;  // keys of each pixel, ascending
  Span queries_;
  Eigen::ArrayXf combined_;  // [tile of keys]
  Eigen::ArrayXd pooled_;    // [width]
};
}  // namespace

Matrix attention_map(const MatrixView& queries, const MatrixView& keys, const LogitRule& rule,
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
  // Rows of pixels that show different queries; more pixels than queries repeat them.
  const Eigen::Index stripes = std::min<Eigen::Index>(window.height, rows);
  Matrix pooled(stripes, window.width);
  Matrix logits;
  progress.set_total(rows);
  for (Eigen::Index y = 0; y < stripes;) {
    // As many whole stripes as one matrix product takes.
    std::vector<PixelRow> group;
    const auto add_stripe = [&] {
      const Span span = cells_of(y + std::ssize(group), stripes, rows);
      group.emplace_back(window, spans,
                         Span{window.query_first + span.first, window.query_first + span.end});
    };
    add_stripe();
    const Eigen::Index first = group.front().queries().first;
    while (y + std::ssize(group) < stripes) {
      const Span next = cells_of(y + std::ssize(group), stripes, rows);
      if (window.query_first + next.end - first > kMapTileQueries) break;
      add_stripe();
    }
    const Eigen::Index end = group.back().queries().end;
    for (Eigen::Index q = first; q < end; q += kMapTileQueries) {
      const Eigen::Index count = std::min(kMapTileQueries, end - q);
      const Eigen::Index visible_first =
          std::max<Eigen::Index>(window.key_first, first_seen(static_cast<int>(q), window.seen));
      const Eigen::Index visible_end = std::min<Eigen::Index>(window.key_end, q + count);
      for (Eigen::Index k = visible_first; k < visible_end; k += kTileKeys) {
        progress.check();
        const Eigen::Index width = std::min(kTileKeys, visible_end - k);
        logits.noalias() = queries.middleRows(q, count) * keys.middleRows(k, width).transpose();
        to_logits(logits, rule);
        for (PixelRow& pixels : group) {
          pixels.begin();
          const Eigen::Index from = std::max(q, pixels.queries().first);
          const Eigen::Index to = std::min(q + count, pixels.queries().end);
          for (Eigen::Index row = from; row < to; ++row) {
            const Eigen::Index begin =
                std::max<Eigen::Index>(first_seen(static_cast<int>(row), window.seen) - k, 0);
            const Eigen::Index end_seen = std::min(width, row + 1 - k);
            if (end_seen <= begin) continue;
            pixels.add(
                begin,
                {logits.row(row - q).data() + begin, static_cast<std::size_t>(end_seen - begin)},
                probability ? logsumexp[static_cast<std::size_t>(row)] : 0.0F);
          }
          pixels.end(k, k + width);
        }
      }
      progress.advance(count);
    }
    for (const PixelRow& pixels : group) {
      for (Eigen::Index x = 0; x < window.width; ++x) pooled(y, x) = pixels.value(x);
      ++y;
    }
  }
  if (stripes == window.height) return pooled;
  Matrix map(window.height, window.width);
  for (Eigen::Index y = 0; y < window.height; ++y) {
    map.row(y) = pooled.row(cells_of(y, window.height, rows).first);
  }
  return map;
}

}  // namespace kvloupe

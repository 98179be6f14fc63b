#include "analysis/metric/attention.h"

#include <algorithm>
#include <cmath>

#include "analysis/numeric/exponentials.h"

namespace kvloupe {

namespace {
constexpr Eigen::Index kTileQueries = 128;
constexpr float kStoredTolerance = 1e-3F;  // of a stored log-sum-exp against a recomputed one

/// What the query that is entry `own` sees: entries [first, end).
struct Seen {
  Eigen::Index first = 0, end = 0;
  Eigen::Index size() const { return end - first; }
};
Seen seen_by(Eigen::Index own, int window) {
  return {window > 0 ? std::max<Eigen::Index>(own - window + 1, 0) : 0, own + 1};
}

/// Calls visit(first, logits, from) for tiles of queries: logits [count, width] of the entries from
/// `from` on that any of the tile's queries sees.
template <typename Visit>
void for_each_tile(const MatrixView& queries, const MatrixView& keys, float scale, int window,
                   Visit visit) {
  const Eigen::Index m = queries.rows(), before = keys.rows() - m;
  Matrix logits;
  for (Eigen::Index first = 0; first < m; first += kTileQueries) {
    const Eigen::Index count = std::min(kTileQueries, m - first);
    const Eigen::Index from = seen_by(before + first, window).first;
    const Eigen::Index width = before + first + count - from;
    logits.noalias() = queries.middleRows(first, count) * keys.middleRows(from, width).transpose();
    logits *= scale;
    visit(first, logits, from);
  }
}

template <typename Row>
std::span<float> as_span(Row&& row) {
  return {row.data(), static_cast<std::size_t>(row.size())};
}

/// Log-sum-exp of one row, which it overwrites.
template <typename Row>
float logsumexp(Row&& row) {
  const float largest = row.maxCoeff();
  return static_cast<float>(largest + std::log(exponentials(as_span(row), largest)));
}
}  // namespace

Matrix attention_rows(const MatrixView& queries, const MatrixView& keys, float scale, int window,
                      std::span<const float> log_sizes) {
  const Eigen::Index m = queries.rows(), n = keys.rows();
  Matrix rows(m, n);
  rows.noalias() = queries * keys.transpose();
  rows *= scale;
  if (!log_sizes.empty()) {
    rows.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(log_sizes.data(), n);
  }
  for (Eigen::Index r = 0; r < m; ++r) {
    const Seen seen = seen_by(n - m + r, window);
    auto visible = rows.row(r).segment(seen.first, seen.size());
    visible *= static_cast<float>(1.0 / exponentials(as_span(visible), visible.maxCoeff()));
    rows.row(r).head(seen.first).setZero();
    rows.row(r).tail(n - seen.end).setZero();
  }
  return rows;
}

std::vector<float> attention_logits(std::span<const float> query, const MatrixView& keys,
                                    float scale) {
  const Eigen::Map<const Eigen::VectorXf> q(query.data(), static_cast<Eigen::Index>(query.size()));
  std::vector<float> logits(static_cast<std::size_t>(keys.rows()));
  Eigen::Map<Eigen::VectorXf>(logits.data(), keys.rows()).noalias() = keys * q * scale;
  return logits;
}

std::vector<float> attention_logsumexp(const MatrixView& queries, const MatrixView& keys,
                                       float scale, int window, Progress& progress) {
  const Eigen::Index before = keys.rows() - queries.rows();
  std::vector<float> result(static_cast<std::size_t>(queries.rows()));
  for_each_tile(queries, keys, scale, window,
                [&](Eigen::Index first, Matrix& logits, Eigen::Index from) {
                  progress.check();
                  for (Eigen::Index r = 0; r < logits.rows(); ++r) {
                    const Seen seen = seen_by(before + first + r, window);
                    result[static_cast<std::size_t>(first + r)] =
                        logsumexp(logits.row(r).segment(seen.first - from, seen.size()));
                  }
                });
  return result;
}

std::vector<float> trusted_logsumexp(std::vector<float> stored, const MatrixView& queries,
                                     const MatrixView& keys, float scale, int window,
                                     Progress& progress) {
  const auto agrees = [&](Eigen::Index row) {
    const Seen seen = seen_by(row, window);
    Eigen::RowVectorXf logits =
        queries.row(row) * keys.middleRows(seen.first, seen.size()).transpose() * scale;
    return std::abs(logsumexp(logits) - stored[static_cast<std::size_t>(row)]) <= kStoredTolerance;
  };
  constexpr Eigen::Index kChecks = 8;
  bool trusted = !stored.empty();
  for (Eigen::Index check = 0; trusted && check < kChecks; ++check) {
    trusted = agrees((queries.rows() - 1) * check / (kChecks - 1));
  }
  if (trusted) return stored;
  return attention_logsumexp(queries, keys, scale, window, progress);
}

std::vector<float> attention_logsumexp(const Trace& trace, int layer, int query_head,
                                       Progress& progress) {
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, trace.model().head_of(query_head));
  return trusted_logsumexp(trace.attention_logsumexp(layer, query_head), view(queries), view(keys),
                           static_cast<float>(trace.run().attention_scale), trace.window(),
                           progress);
}

std::vector<double> attention_entropy(const MatrixView& queries, const MatrixView& keys,
                                      float scale, int window, Progress& progress) {
  const Eigen::Index before = keys.rows() - queries.rows();
  std::vector<double> result(static_cast<std::size_t>(queries.rows()));
  Eigen::RowVectorXf weights;
  for_each_tile(
      queries, keys, scale, window, [&](Eigen::Index first, Matrix& logits, Eigen::Index from) {
        progress.check();
        for (Eigen::Index r = 0; r < logits.rows(); ++r) {
          const Seen seen = seen_by(before + first + r, window);
          const auto row = logits.row(r).segment(seen.first - from, seen.size());
          weights = row;
          const float largest = weights.maxCoeff();
          const double sum = exponentials(as_span(weights), largest);
          // Σ A·(logit − largest): no number here grows with the logits.
          const double mean = (weights.cast<double>().array() *
                               (row.cast<double>().array() - static_cast<double>(largest)))
                                  .sum() /
                              sum;
          result[static_cast<std::size_t>(first + r)] = std::max(std::log(sum) - mean, 0.0);
        }
      });
  return result;
}

std::vector<float> attention_column_sums(const MatrixView& queries, const MatrixView& keys,
                                         float scale, int window, Progress& progress) {
  const Eigen::Index before = keys.rows() - queries.rows();
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(keys.rows());
  Eigen::RowVectorXf tile_sums;
  for_each_tile(queries, keys, scale, window,
                [&](Eigen::Index first, Matrix& logits, Eigen::Index from) {
                  progress.check();
                  tile_sums.setZero(logits.cols());
                  for (Eigen::Index r = 0; r < logits.rows(); ++r) {
                    const Seen seen = seen_by(before + first + r, window);
                    auto visible = logits.row(r).segment(seen.first - from, seen.size());
                    const double sum = exponentials(as_span(visible), visible.maxCoeff());
                    tile_sums.segment(seen.first - from, seen.size()) +=
                        visible * static_cast<float>(1.0 / sum);
                  }
                  sums.segment(from, logits.cols()) += tile_sums.cast<double>().transpose();
                });
  std::vector<float> result(static_cast<std::size_t>(keys.rows()));
  Eigen::Map<Eigen::VectorXf>(result.data(), keys.rows()) = sums.cast<float>();
  return result;
}

std::vector<float> received_attention(const MatrixView& queries, const MatrixView& keys,
                                      float scale, int window, Progress& progress) {
  std::vector<float> result = attention_column_sums(queries, keys, scale, window, progress);
  const std::size_t most = window > 0 ? static_cast<std::size_t>(window) : result.size();
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] /= static_cast<float>(std::min(result.size() - i, most));
  }
  return result;
}

}  // namespace kvloupe

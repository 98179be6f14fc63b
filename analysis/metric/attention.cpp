#include "analysis/metric/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/error.h"
#include "analysis/metric/exponential.h"

namespace kvloupe {

namespace {
constexpr Eigen::Index kTileQueries = 128;
constexpr float kStoredTolerance = 1e-3F;  // of a stored log-sum-exp against a recomputed one

/// Calls visit(first, logits, shift) for tiles of queries: logits [count, width] with width the
/// entries that the tile's last query sees; row r of the tile sees the first shift + r of them.
template <typename Visit>
void for_each_tile(const MatrixView& queries, const MatrixView& keys, float scale, Visit visit) {
  const Eigen::Index m = queries.rows(), before = keys.rows() - m;
  Matrix logits;
  for (Eigen::Index first = 0; first < m; first += kTileQueries) {
    const Eigen::Index count = std::min(kTileQueries, m - first);
    const Eigen::Index width = before + first + count;
    logits.noalias() = queries.middleRows(first, count) * keys.topRows(width).transpose();
    logits *= scale;
    visit(first, logits, before + first + 1);
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

void require_no_window(const Trace& trace) {
  const int window = trace.model().sliding_window;
  if (window == 0 || trace.length() <= window) return;
  throw FileError(trace.path().string(),
                  fmt::format("its model attends within a window of {} tokens and the trace has {}; "
                              "attention is computed over all tokens, so capture at most {}",
                              window, trace.length(), window));
}

Matrix attention_rows(const MatrixView& queries, const MatrixView& keys, float scale,
                      std::span<const float> log_sizes) {
  const Eigen::Index m = queries.rows(), n = keys.rows();
  Matrix rows(m, n);
  rows.noalias() = queries * keys.transpose();
  rows *= scale;
  if (!log_sizes.empty()) {
    rows.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(log_sizes.data(), n);
  }
  for (Eigen::Index r = 0; r < m; ++r) {
    const Eigen::Index seen = n - m + r + 1;
    auto visible = rows.row(r).head(seen);
    visible *= static_cast<float>(1.0 / exponentials(as_span(visible), visible.maxCoeff()));
    rows.row(r).tail(n - seen).setZero();
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
                                       float scale, Progress& progress) {
  std::vector<float> result(static_cast<std::size_t>(queries.rows()));
  for_each_tile(queries, keys, scale, [&](Eigen::Index first, Matrix& logits,
                                          Eigen::Index seen) {
    progress.check();
    for (Eigen::Index r = 0; r < logits.rows(); ++r) {
      result[static_cast<std::size_t>(first + r)] = logsumexp(logits.row(r).head(seen + r));
    }
  });
  return result;
}

std::vector<float> attention_logsumexp(const Trace& trace, int layer, int query_head,
                                       Progress& progress) {
  require_no_window(trace);
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, trace.model().head_of(query_head));
  const auto scale = static_cast<float>(trace.run().attention_scale);
  std::vector<float> stored = trace.attention_logsumexp(layer, query_head);
  const auto agrees = [&](Eigen::Index row) {
    Eigen::RowVectorXf logits =
        queries.row(row) * keys.topRows(row + 1).transpose() * scale;
    return std::abs(logsumexp(logits) - stored[static_cast<std::size_t>(row)]) <= kStoredTolerance;
  };
  constexpr Eigen::Index kChecks = 8;
  bool trusted = !stored.empty();
  for (Eigen::Index check = 0; trusted && check < kChecks; ++check) {
    trusted = agrees((queries.rows() - 1) * check / (kChecks - 1));
  }
  if (trusted) return stored;
  return attention_logsumexp(view(queries), view(keys), scale, progress);
}

std::vector<float> attention_column_sums(const MatrixView& queries, const MatrixView& keys,
                                         float scale, Progress& progress) {
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(keys.rows());
  Eigen::RowVectorXf tile_sums;
  for_each_tile(queries, keys, scale, [&](Eigen::Index, Matrix& logits, Eigen::Index seen) {
    progress.check();
    tile_sums.setZero(logits.cols());
    for (Eigen::Index r = 0; r < logits.rows(); ++r) {
      auto visible = logits.row(r).head(seen + r);
      const double sum = exponentials(as_span(visible), visible.maxCoeff());
      tile_sums.head(seen + r) += visible * static_cast<float>(1.0 / sum);
    }
    sums.head(logits.cols()) += tile_sums.cast<double>().transpose();
  });
  std::vector<float> result(static_cast<std::size_t>(keys.rows()));
  Eigen::Map<Eigen::VectorXf>(result.data(), keys.rows()) = sums.cast<float>();
  return result;
}

std::vector<float> received_attention(const MatrixView& queries, const MatrixView& keys,
                                      float scale, Progress& progress) {
  std::vector<float> result = attention_column_sums(queries, keys, scale, progress);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] /= static_cast<float>(result.size() - i);
  return result;
}

}  // namespace kvloupe

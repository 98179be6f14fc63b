#include "analysis/math/attention.h"

#include <algorithm>
#include <cmath>

#include "analysis/math/numeric/exponentials.h"

namespace kvloupe {

namespace {
constexpr Eigen::Index kTileQueries = 128;
constexpr float kStoredTolerance = 1e-3F;  // of a stored log-sum-exp against a recomputed one

/// The query that is entry `own` sees the entries [first, end).
struct Seen {
  Eigen::Index first = 0, end = 0;
  Eigen::Index size() const { return end - first; }
};
Seen seen_by(Eigen::Index own, const Reach& reach) {
  return {first_seen(static_cast<int>(own), reach), own + 1};
}

/// Calls visit(first, logits, from) for tiles of queries: logits [count, width] of the entries from
/// `from` on that any of the tile's queries sees.
template <typename Visit>
void for_each_tile(const MatrixView& queries, const MatrixView& keys, const LogitRule& rule,
                   const Reach& reach, Visit visit) {
  const Eigen::Index m = queries.rows(), before = keys.rows() - m;
  Matrix logits;
  for (Eigen::Index first = 0; first < m; first += kTileQueries) {
    const Eigen::Index count = std::min(kTileQueries, m - first);
    const Eigen::Index from = seen_by(before + first, reach).first;
    const Eigen::Index width = before + first + count - from;
    logits.noalias() = queries.middleRows(first, count) * keys.middleRows(from, width).transpose();
    to_logits(logits, rule);
    visit(first, logits, from);
  }
}

template <typename Row>
std::span<float> as_span(Row&& row) {
  return {row.data(), static_cast<std::size_t>(row.size())};
}

/// A row's logits become exponentials over `shift`; their sum, with the sink's.
template <typename Row>
double exponential_sum(Row&& row, float& shift, const LogitRule& rule) {
  shift = softmax_shift(row.maxCoeff(), rule);
  return with_sink(exponentials(as_span(row), shift), static_cast<double>(shift), rule);
}
template <typename Row>
double exponential_sum(Row&& row, const LogitRule& rule) {
  float shift = 0.0F;
  return exponential_sum(row, shift, rule);
}

/// Log-sum-exp of one row, which it overwrites.
template <typename Row>
float logsumexp(Row&& row, const LogitRule& rule) {
  float shift = 0.0F;
  const double sum = exponential_sum(row, shift, rule);
  return static_cast<float>(static_cast<double>(shift) + std::log(sum));
}
}  // namespace

Matrix attention_rows(const MatrixView& queries, const MatrixView& keys, const LogitRule& rule,
                      const Reach& reach, std::span<const float> log_sizes) {
  const Eigen::Index m = queries.rows(), n = keys.rows();
  Matrix rows(m, n);
  rows.noalias() = queries * keys.transpose();
  to_logits(rows, rule);
  if (!log_sizes.empty()) {
    rows.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(log_sizes.data(), n);
  }
  for (Eigen::Index r = 0; r < m; ++r) {
    const Seen seen = seen_by(n - m + r, reach);
    auto visible = rows.row(r).segment(seen.first, seen.size());
    visible *= static_cast<float>(1.0 / exponential_sum(visible, rule));
    rows.row(r).head(seen.first).setZero();
    rows.row(r).tail(n - seen.end).setZero();
  }
  return rows;
}

std::vector<float> attention_logits(std::span<const float> query, const MatrixView& keys,
                                    const LogitRule& rule) {
  const Eigen::Map<const Eigen::VectorXf> q(query.data(), static_cast<Eigen::Index>(query.size()));
  std::vector<float> logits(static_cast<std::size_t>(keys.rows()));
  Eigen::Map<Eigen::VectorXf> result(logits.data(), keys.rows());
  result.noalias() = keys * q;
  to_logits(result, rule);
  return logits;
}

std::vector<float> attention_logsumexp(const MatrixView& queries, const MatrixView& keys,
                                       const LogitRule& rule, const Reach& reach,
                                       Progress& progress) {
  const Eigen::Index before = keys.rows() - queries.rows();
  std::vector<float> result(static_cast<std::size_t>(queries.rows()));
  for_each_tile(queries, keys, rule, reach,
                [&](Eigen::Index first, Matrix& logits, Eigen::Index from) {
                  progress.check();
                  for (Eigen::Index r = 0; r < logits.rows(); ++r) {
                    const Seen seen = seen_by(before + first + r, reach);
                    result[static_cast<std::size_t>(first + r)] =
                        logsumexp(logits.row(r).segment(seen.first - from, seen.size()), rule);
                  }
                });
  return result;
}

std::vector<float> trusted_logsumexp(std::vector<float> stored, const MatrixView& queries,
                                     const MatrixView& keys, const LogitRule& rule,
                                     const Reach& reach, Progress& progress) {
  const auto agrees = [&](Eigen::Index row) {
    const Seen seen = seen_by(row, reach);
    Eigen::RowVectorXf logits =
        queries.row(row) * keys.middleRows(seen.first, seen.size()).transpose();
    to_logits(logits, rule);
    return std::abs(logsumexp(logits, rule) - stored[static_cast<std::size_t>(row)]) <=
           kStoredTolerance;
  };
  constexpr Eigen::Index kChecks = 8;
  bool trusted = !stored.empty();
  for (Eigen::Index check = 0; trusted && check < kChecks; ++check) {
    trusted = agrees((queries.rows() - 1) * check / (kChecks - 1));
  }
  if (trusted) return stored;
  return attention_logsumexp(queries, keys, rule, reach, progress);
}

std::vector<float> attention_logsumexp(const Trace& trace, int layer, int query_head,
                                       Progress& progress) {
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, trace.layer_model(layer).head_of(query_head));
  return trusted_logsumexp(trace.attention_logsumexp(layer, query_head), view(queries), view(keys),
                           trace.attention(layer).of(query_head), trace.reach(layer), progress);
}

std::vector<double> attention_entropy(const MatrixView& queries, const MatrixView& keys,
                                      const LogitRule& rule, const Reach& reach,
                                      Progress& progress) {
  const Eigen::Index before = keys.rows() - queries.rows();
  std::vector<double> result(static_cast<std::size_t>(queries.rows()));
  Eigen::RowVectorXf weights;
  for_each_tile(
      queries, keys, rule, reach, [&](Eigen::Index first, Matrix& logits, Eigen::Index from) {
        progress.check();
        for (Eigen::Index r = 0; r < logits.rows(); ++r) {
          const Seen seen = seen_by(before + first + r, reach);
          const auto row = logits.row(r).segment(seen.first - from, seen.size());
          weights = row;
          float shift = 0.0F;
          const double sum = exponential_sum(weights, shift, rule);
          const auto from_shift = static_cast<double>(shift);
          // Σ A·(logit − shift): the numbers here do not grow with the logits.
          double mean =
              (weights.cast<double>().array() * (row.cast<double>().array() - from_shift)).sum();
          if (rule.has_sink()) mean += std::exp(rule.sink - from_shift) * (rule.sink - from_shift);
          mean /= sum;
          result[static_cast<std::size_t>(first + r)] = std::max(std::log(sum) - mean, 0.0);
        }
      });
  return result;
}

std::vector<float> attention_column_sums(const MatrixView& queries, const MatrixView& keys,
                                         const LogitRule& rule, const Reach& reach,
                                         Progress& progress) {
  const Eigen::Index before = keys.rows() - queries.rows();
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(keys.rows());
  Eigen::RowVectorXf tile_sums;
  for_each_tile(queries, keys, rule, reach,
                [&](Eigen::Index first, Matrix& logits, Eigen::Index from) {
                  progress.check();
                  tile_sums.setZero(logits.cols());
                  for (Eigen::Index r = 0; r < logits.rows(); ++r) {
                    const Seen seen = seen_by(before + first + r, reach);
                    auto visible = logits.row(r).segment(seen.first - from, seen.size());
                    const double sum = exponential_sum(visible, rule);
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
                                      const LogitRule& rule, const Reach& reach,
                                      Progress& progress) {
  std::vector<float> result = attention_column_sums(queries, keys, rule, reach, progress);
  const int tokens = static_cast<int>(result.size());
  for (int token = 0; token < tokens; ++token) {
    result[static_cast<std::size_t>(token)] /=
        static_cast<float>(first_unseeing(token, reach, tokens) - token);
  }
  return result;
}

}  // namespace kvloupe

#include "analysis/math/later_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/math/numeric/exponentials.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

namespace {
constexpr int kLaterTile = 128;  // queries of one product

/// The rows of these tokens, without a copy where they follow each other.
MatrixView rows_of(const MatrixView& keys, std::span<const std::int32_t> tokens, Matrix& gathered) {
  const auto count = static_cast<Eigen::Index>(tokens.size());
  if (tokens.back() - tokens.front() + 1 == static_cast<std::int32_t>(count)) {
    return rows(keys, tokens.front(), count);
  }
  gathered.resize(count, keys.cols());
  for (Eigen::Index i = 0; i < count; ++i) {
    gathered.row(i) = keys.row(tokens[static_cast<std::size_t>(i)]);
  }
  return view(gathered);
}
}  // namespace

std::vector<double> later_attention(const MatrixView& queries, const MatrixView& keys,
                                    std::span<const float> logsumexp,
                                    std::span<const std::int32_t> tokens, int first_query,
                                    const LogitRule& rule, const Reach& reach, Progress& progress) {
  const int last = static_cast<int>(queries.rows());
  if (first_query >= last)
    return std::vector<double>(tokens.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<double> received(tokens.size(), 0.0);
  if (tokens.empty()) return received;
  Matrix gathered, logits;
  const MatrixView own = rows_of(keys, tokens, gathered);
  std::vector<float> sums;  // of a tile: few enough rows for float32
  for (int begin = first_query; begin < last; begin += kLaterTile) {
    progress.check();
    const int count = std::min(kLaterTile, last - begin);
    logits.noalias() = rows(queries, begin, count) * own.transpose();
    to_logits(logits, rule);
    sums.assign(tokens.size(), 0.0F);
    for (int r = 0; r < count; ++r) {
      const int query = begin + r;
      const auto from = static_cast<std::size_t>(
          std::lower_bound(tokens.begin(), tokens.end(), first_seen(query, reach)) -
          tokens.begin());
      if (from == tokens.size()) continue;
      float* row = logits.row(r).data() + from;
      const std::size_t seen = tokens.size() - from;
      // The log-sum-exp is rounded on its own way: no logit may stand above it.
      const float shift = std::max(logsumexp[static_cast<std::size_t>(query)],
                                   largest_of(std::span<const float>(row, seen)));
      exponentials(std::span(row, seen), shift);
      add_scaled(sums.data() + from, row, seen, 1.0F);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) received[i] += static_cast<double>(sums[i]);
  }
  for (double& one : received) one /= last - first_query;
  return received;
}

AttendedToken strongest_attention(const MatrixView& queries, const MatrixView& keys,
                                  std::span<const float> logsumexp, const LogitRule& rule,
                                  const Reach& reach, Progress& progress) {
  constexpr int kQueryTile = 128;  // queries of one product
  AttendedToken strongest;
  const int count = static_cast<int>(queries.rows());
  Matrix products;
  for (int begin = 1; begin < count; begin += kQueryTile) {
    progress.check();
    const int end = std::min(begin + kQueryTile, count);
    const int low = std::max(1, first_seen(begin, reach));
    products.noalias() =
        queries.middleRows(begin, end - begin) * keys.middleRows(low, end - low).transpose();
    for (int query = begin; query < end; ++query) {
      const int first = std::max(low, first_seen(query, reach));
      Eigen::Index at = 0;
      // A logit grows with its product.
      const float largest =
          products.row(query - begin).segment(first - low, query + 1 - first).maxCoeff(&at);
      const double attention =
          std::min(1.0, std::exp(rule.logit(static_cast<double>(largest)) -
                                 static_cast<double>(logsumexp[static_cast<std::size_t>(query)])));
      if (attention > strongest.attention)
        strongest = {query, first + static_cast<int>(at), attention};
    }
  }
  return strongest;
}

}  // namespace kvloupe

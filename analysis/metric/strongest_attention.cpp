#include "analysis/metric/strongest_attention.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

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

#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores keydiff_score(const NaiveReplay& r, int head, const Block&, int) {
  const std::string& anchor_kind = r.part().word("anchor");
  const std::string& metric = r.part().word("metric");
  const std::vector<int>& tokens = r.cache(head);
  const int d = r.model().head_dim;
  Scores scores;
  if (anchor_kind == "pairwise") {
    for (const int i : tokens) {
      for (const int j : tokens) {
        const double lengths = r.key_norm(head, i) * r.key_norm(head, j);
        double square = 0.0;
        for (int c = 0; c < d; ++c) {
          const double difference = r.key(head, i, c) - r.key(head, j, c);
          square += difference * difference;
        }
        if (metric == "cosine") scores[i] -= lengths > 0.0 ? r.product(head, i, j) / lengths : 0.0;
        if (metric == "dot") scores[i] -= r.product(head, i, j);
        if (metric == "euclidean") scores[i] += std::sqrt(square);
      }
    }
    return scores;
  }
  std::vector<double> anchor(static_cast<std::size_t>(d), 0.0);
  for (int c = 0; c < d; ++c) {
    std::vector<double> column;
    for (const int token : tokens) {
      const double norm = anchor_kind == "mean" ? r.key_norm(head, token) : 1.0;
      column.push_back(norm > 0.0 ? r.key(head, token, c) / norm : 0.0);
    }
    if (anchor_kind == "median") {
      std::sort(column.begin(), column.end());
      const std::size_t n = column.size();
      anchor[c] = (column[(n - 1) / 2] + column[n / 2]) / 2.0;
    } else {
      for (const double x : column) anchor[c] += x / static_cast<double>(column.size());
    }
  }
  double anchor_length = 0.0;
  for (const double x : anchor) anchor_length += x * x;
  anchor_length = std::sqrt(anchor_length);
  for (const int token : tokens) {
    double dot = 0.0;
    double square = 0.0;
    for (int c = 0; c < d; ++c) {
      const double k = r.key(head, token, c);
      dot += anchor[c] * k;
      square += (k - anchor[c]) * (k - anchor[c]);
    }
    const double lengths = anchor_length * r.key_norm(head, token);
    if (metric == "cosine") scores[token] = lengths > 0.0 ? -dot / lengths : 0.0;
    if (metric == "dot") scores[token] = -dot;
    if (metric == "euclidean") scores[token] = std::sqrt(square);
  }
  return scores;
}

NaiveScore keydiff() { return {.name = "keydiff", .score = keydiff_score}; }

}  // namespace kvloupe::naive::scores

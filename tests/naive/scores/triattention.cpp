#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores triattention_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int group = r.model().group_size(), pairs = rotated_width(r.model()) / 2;
  const int now = block.end;
  const std::vector<int>& cache = r.cache(head);
  const bool largest = part.word("aggregate") == "max";
  std::vector<double> result(cache.size(), largest ? -1e300 : 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    std::vector<Complex> centre(pairs, 0.0);
    std::vector<double> length(pairs, 0.0);
    // Coordinates that do not rotate count with their product.
    const int first = r.model().rotary_start, end = first + 2 * pairs;
    std::vector<double> still(r.model().head_dim, 0.0);
    for (int t = 0; t < block.end; ++t) {
      const auto q = query_vector(r, query_head, t, false);
      for (int c = 0; c < r.model().head_dim; ++c) {
        if (c < first || c >= end) still[c] += q[c] / block.end;
      }
      for (int j = 0; j < pairs; ++j) {
        const auto [a, b] = pair_of(r.model(), j);
        centre[j] += Complex(q[a], q[b]) / static_cast<double>(block.end);
        length[j] += std::hypot(q[a], q[b]) / block.end;
      }
    }
    std::vector<double> own;
    for (const int token : cache) {
      const auto k = key_vector(r, head, token, false);
      double score = 0.0;
      for (int c = 0; c < r.model().head_dim; ++c) score += still[c] * k[c];
      for (int j = 0; j < pairs; ++j) {
        const auto [a, b] = pair_of(r.model(), j);
        const Complex of_key(k[a], k[b]);
        const double angle = std::arg(centre[j] * std::conj(of_key));
        double mean = 0.0;
        for (double delta = 1.0; delta <= 65536.0; delta *= 2.0) {
          mean += std::cos((now - token + delta) * frequency(r.model(), j) + angle) / 17.0;
        }
        score += std::abs(centre[j]) * std::abs(of_key) * mean;
        score += (length[j] - std::abs(centre[j])) * std::abs(of_key);
      }
      own.push_back(score);
    }
    if (part.count("standard") == 1) {
      double mean = 0.0, squares = 0.0;
      const double n = static_cast<double>(own.size());
      for (const double x : own) mean += x / n;
      for (const double x : own) squares += (x - mean) * (x - mean);
      const double deviation = std::sqrt(squares / n);
      for (double& x : own) x = (x - mean) / std::max(deviation, 1e-6);
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      result[i] = largest ? std::max(result[i], own[i]) : result[i] + own[i] / group;
    }
  }
  Scores scores;
  for (std::size_t i = 0; i < cache.size(); ++i) scores[cache[i]] = result[i];
  return scores;
}

NaiveScore triattention() { return {.name = "triattention", .score = triattention_score}; }

}  // namespace kvloupe::naive::scores

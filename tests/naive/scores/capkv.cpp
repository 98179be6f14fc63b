#include <cmath>

#include "tests/naive/decompositions.h"
#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores capkv_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int sinks = part.count("sinks"), future = part.count("future"), d = r.model().head_dim;
  const int group = r.model().group_size(), width = r.model().value_width();
  std::vector<int> tokens;
  for (const int token : r.cache(head)) {
    if (token >= sinks) tokens.push_back(token);
  }
  Scores scores;
  for (int query_head = head * group; query_head < (head + 1) * group && !tokens.empty();
       ++query_head) {
    // The mean over queries and positions of the query as it would be there.
    std::vector<double> mean(d, 0.0), anchor(d, 0.0);
    const int count = std::max(block.end - sinks, 0);
    for (int t = sinks; t < block.end; ++t) {
      const auto q = query_vector(r, query_head, t, false);
      for (int c = 0; c < d; ++c) mean[c] += q[c] / count;
    }
    for (int p = block.end; p < block.end + future; ++p) {
      const auto there = turned(r.model(), mean, p);
      for (int c = 0; c < d; ++c) anchor[c] += there[c] / future;
    }
    std::vector<double> weights;
    double length = 0.0, largest = -1e300;
    for (const double x : anchor) length += x * x;
    for (const int token : tokens) {
      double dot = 0.0;
      for (int c = 0; c < d; ++c) dot += anchor[c] * r.key(head, token, c);
      const bool cosine = part.count("cosine") == 1;
      const double lengths = cosine ? std::sqrt(length) * r.key_norm(head, token) : 1.0;
      weights.push_back(lengths > 0.0 ? part.number("tau") * dot / lengths : 0.0);
      largest = std::max(largest, weights.back());
    }
    Eigen::MatrixXd sum = Eigen::MatrixXd::Identity(width, width);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      weights[i] = std::exp(weights[i] - largest);
      for (int a = 0; a < width; ++a) {
        for (int b = 0; b < width; ++b) {
          sum(a, b) += (weights[i] + part.number("epsilon")) * r.value(head, tokens[i], a) *
                       r.value(head, tokens[i], b);
        }
      }
    }
    const Eigen::MatrixXd inverse = naive::inverse(sum);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      double form = 0.0;
      for (int a = 0; a < width; ++a) {
        for (int b = 0; b < width; ++b) {
          form += r.value(head, tokens[i], a) * inverse(a, b) * r.value(head, tokens[i], b);
        }
      }
      scores[tokens[i]] += weights[i] * form / group;
    }
  }
  return with_protected(scores, r.cache(head));
}

NaiveScore capkv() {
  return {.name = "capkv", .score = capkv_score, .first_tokens = "sinks", .small = true};
}

}  // namespace kvloupe::naive::scores

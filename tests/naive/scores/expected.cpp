#include <Eigen/Core>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores expected_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int sinks = part.count("sinks"), future = part.count("future"), d = r.model().head_dim;
  const int group = r.model().group_size();
  Scores scores;
  std::vector<int> tokens;
  for (const int token : r.cache(head)) {
    if (token >= sinks) tokens.push_back(token);
  }
  for (int query_head = head * group; query_head < (head + 1) * group && !tokens.empty();
       ++query_head) {
    // Mean and covariance of the queries before RoPE.
    std::vector<double> mean(d, 0.0);
    Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(d, d);
    const int count = std::max(block.end - sinks, 0);
    for (int t = sinks; t < block.end; ++t) {
      const auto q = query_vector(r, query_head, t, false);
      for (int c = 0; c < d; ++c) mean[c] += q[c] / count;
    }
    for (int t = sinks; t < block.end; ++t) {
      const auto q = query_vector(r, query_head, t, false);
      for (int a = 0; a < d; ++a) {
        for (int b = 0; b < d; ++b) covariance(a, b) += (q[a] - mean[a]) * (q[b] - mean[b]) / count;
      }
    }
    // The mean rotation, as a matrix.
    Eigen::MatrixXd rotation = Eigen::MatrixXd::Identity(d, d);
    for (int j = 0; j < rotated_width(r.model()) / 2; ++j) {
      const auto [a, b] = pair_of(r.model(), j);
      rotation(a, a) = rotation(b, b) = 0.0;
      for (int p = block.end; p < block.end + future; ++p) {
        const double angle = p * frequency(r.model(), j);
        rotation(a, a) += std::cos(angle) / future;
        rotation(b, b) += std::cos(angle) / future;
        rotation(a, b) -= std::sin(angle) / future;
        rotation(b, a) += std::sin(angle) / future;
      }
    }
    const Eigen::VectorXd centre = rotation * Eigen::Map<Eigen::VectorXd>(mean.data(), d);
    const Eigen::MatrixXd spread = rotation * covariance * rotation.transpose();
    std::vector<double> logits;
    const double s = r.attending().scale;
    for (const int token : tokens) {
      const auto k = key_vector(r, head, token, true);
      const Eigen::Map<const Eigen::VectorXd> x(k.data(), d);
      double logit = s * x.dot(centre);
      if (part.count("covariance") == 1) logit += s * s / 2.0 * x.dot(spread * x);
      const NaiveReplay::Merged* entry = r.merged(head, token);
      logits.push_back(logit + (entry != nullptr ? entry->log_size : 0.0));
    }
    if (!r.attending().sink_logits.empty()) {
      logits.push_back(static_cast<double>(r.attending().sink_logits[query_head]));
    }
    const auto weights = softmax(logits);
    for (std::size_t i = 0; i < tokens.size(); ++i) scores[tokens[i]] += weights[i] / group;
  }
  for (auto& [token, score] : scores) {
    score += part.number("epsilon");
    if (part.count("value_norm") == 1) score *= r.value_norm(head, token, 2);
  }
  return with_protected(scores, r.cache(head));
}

NaiveScore expected() {
  return {.name = "expected", .score = expected_score, .first_tokens = "sinks", .small = true};
}

}  // namespace kvloupe::naive::scores

#include "tests/naive/decompositions.h"
#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores qfilter_score(const NaiveReplay& r, int head, const Block& block, int) {
  const int d = r.model().head_dim, group = r.model().group_size();
  Eigen::VectorXd filter = Eigen::VectorXd::Zero(d);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    Eigen::MatrixXd queries(block.end, d);
    for (int t = 0; t < block.end; ++t) {
      const auto q = query_vector(r, query_head, t, true);
      for (int c = 0; c < d; ++c) queries(t, c) = q[c];
    }
    Eigen::VectorXd direction = first_direction(queries);
    if ((queries * direction).mean() < 0.0) direction = -direction;
    filter += direction / group;
  }
  Scores scores;
  for (const int token : r.cache(head)) {
    for (int c = 0; c < d; ++c) scores[token] += filter[c] * r.key(head, token, c);
  }
  return scores;
}

NaiveScore qfilter() { return {.name = "qfilter", .score = qfilter_score}; }

}  // namespace kvloupe::naive::scores

#include "tests/naive/naive_matching.h"
#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores matching_score(const NaiveReplay& r, int head, const Block&, int budget) {
  const Matching of = r.matching(head);
  std::vector<double> own;
  if (r.part().word("keys") == "omp") {
    own = pursued(of.E, of.weights, r.part(), budget);
  } else {
    const Eigen::VectorXd sums = of.E.rowwise().sum() + of.sinks;
    for (Eigen::Index j = 0; j < of.E.cols(); ++j) {
      const Eigen::ArrayXd a = of.E.col(j).cwiseQuotient(sums);
      const std::string& by = r.part().word("by");
      own.push_back(by == "max"    ? a.maxCoeff()
                    : by == "mean" ? a.mean()
                                   : std::sqrt(a.square().mean()));
    }
  }
  Scores scores;
  for (std::size_t j = 0; j < own.size(); ++j) scores[r.cache(head)[j]] = own[j];
  return scores;
}

NaiveScore attentionmatching() { return {.name = "attentionmatching", .score = matching_score}; }

}  // namespace kvloupe::naive::scores

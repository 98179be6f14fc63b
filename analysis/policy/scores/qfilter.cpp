// qfilter: keys that lie where queries point.

#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class QFilterScore : public Score {
 public:
  explicit QFilterScore(const LayerContext& context)
      : model_(context.model), moments_(context.model, QueryMoments::Frame::rotated, 0, true) {}

  void observe(const StepView& view, int head) override { moments_.observe(view, head); }

  std::vector<float> score(const StepView& view, int head) override {
    const int group = model_.group_size();
    Eigen::VectorXd filter = Eigen::VectorXd::Zero(model_.head_dim);
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      filter += filter_of(moments_.of(query_head)) / group;
    }
    const MatrixView& keys = view.caches[static_cast<std::size_t>(head)].keys;
    std::vector<float> scores(static_cast<std::size_t>(keys.rows()));
    Eigen::Map<Eigen::VectorXf>(scores.data(), keys.rows()) = keys * filter.cast<float>();
    return scores;
  }

 private:
  /// The first right singular vector of the queries, which are not centred, on the side of their
  /// mean.
  static Eigen::VectorXd filter_of(const QueryMoments::Sums& sums) {
    const Eigen::VectorXd direction = main_direction(sums.second);
    return direction.dot(sums.first) < 0.0 ? Eigen::VectorXd(-direction) : direction;
  }

  ModelInfo model_;
  QueryMoments moments_;
};
}  // namespace

void qfilter(PolicyEntry& entry) {
  entry.summary = "keys along the main direction of the queries";
  entry.formula =
      "score_i = f·k_i, f: mean over the group of the first right singular vector of the queries "
      "so far, on the side of their mean";
  entry.source = "Q-Filters (Godey et al., 2025, arXiv 2503.02812)";
  entry.needs = "queries, keys";
  entry.work =
      "B d² operations per query head to add the queries, d³ for the eigenvector, n d to score";
  entry.differences =
      "its authors and kvpress compute f from other texts, on the side of most of the queries; "
      "here f comes from the queries that the layer has seen, on the side of their mean";
  entry.builder = ScoreBuilder{made_of<QFilterScore>, ScoreScale::signed_own};
}

}  // namespace kvloupe::policies

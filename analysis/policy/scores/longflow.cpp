// longflow: the contribution of an entry to the present output.

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class LongFlowScore : public Score {
 public:
  explicit LongFlowScore(const LayerContext& context) : model_(context.model) {}

  bool needs_values() const override { return true; }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    std::vector<double> scores = group_mean(model_, head, cache.tokens.size(), [&](int query_head) {
      return view.attention->last_rows(query_head, 1).row(0);
    });
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] *= cache.values.row(static_cast<Eigen::Index>(i)).cast<double>().lpNorm<1>();
    }
    return to_float(scores);
  }

 private:
  ModelInfo model_;
};
}  // namespace

void longflow(PolicyEntry& entry) {
  entry.summary = "the attention of the last query times the length of the value";
  entry.formula = "score_i = A[last query, i] ‖v_i‖₁, mean over the group";
  entry.source = "LongFlow (Su et al., 2026), as in the code of EpiKV (2026, arXiv 2606.26472)";
  entry.needs = "the attention of the last query, values";
  entry.work = "n products of length d per query head, and n d operations";
  entry.differences = "nothing is protected. EpiKV's code keeps one set for all heads and layers";
  entry.builder = ScoreBuilder{made_of<LongFlowScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies

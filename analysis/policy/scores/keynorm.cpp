// keynorm: entries with small keys are kept.

#include "analysis/policy/kit/key_norms.h"
#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
/// score_i = −‖k_i‖₂ (KeyDiff table 8).
class KeyNormScore : public Score {
 public:
  explicit KeyNormScore(const LayerContext& context)
      : norms_(static_cast<std::size_t>(context.model.num_kv_heads)) {}

  void observe(const StepView& view, int head) override {
    const auto index = static_cast<std::size_t>(head);
    norms_[index].observe(view.caches[index].keys, [](Eigen::Index) {});
  }
  std::vector<float> score(const StepView&, int head) override {
    std::vector<float> result = norms_[static_cast<std::size_t>(head)].values();
    for (float& value : result) value = -value;
    return result;
  }
  void retain(const StepView&, int head, const HeadDecision& decision) override {
    norms_[static_cast<std::size_t>(head)].retain(decision, [](Eigen::Index) {});
  }

 private:
  std::vector<KeyNorms> norms_;  // [Hk]
};
}  // namespace

void keynorm(PolicyEntry& entry) {
  entry.summary = "keeps entries with small keys (KeyL2Norm)";
  entry.traits.reads_queries = false;
  entry.formula = "score_i = -||k_i||";
  entry.source = "Devoto et al., A Simple and Effective L2 Norm-Based Strategy; KeyDiff table 8";
  entry.needs = "keys";
  entry.work = "n d operations per head";
  entry.differences = "the authors' code starts at 2048 tokens and skips the first two layers";
  entry.builder = ScoreBuilder{made_of<KeyNormScore>, ScoreScale::signed_own};
}

}  // namespace kvloupe::policies

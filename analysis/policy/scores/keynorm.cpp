// keynorm: entries with small keys are kept.

#include "analysis/policy/kit/key_norms.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// score_i = −‖k_i‖₂ (KeyDiff table 8).
struct KeyNormHead : KeyNorms {
  void observe(const CacheView& cache) {
    KeyNorms::observe(cache.keys, [](Eigen::Index) {});
  }
  std::vector<float> score(const CacheView&) const {
    std::vector<float> result = values();
    for (float& value : result) value = -value;
    return result;
  }
  void retain(const CacheView&, const HeadDecision& decision) {
    KeyNorms::retain(decision, [](Eigen::Index) {});
  }
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
  entry.builder = ScoreBuilder{
      [](const SpecPart&, const LayerContext& context) {
        return make_copyable<ScoreOfHeads<KeyNormHead>>(
            std::vector<KeyNormHead>(static_cast<std::size_t>(context.model.num_kv_heads)));
      },
      ScoreScale::signed_own};
}

}  // namespace kvloupe::policies

// leverage: keys that the others cannot replace.

#include "analysis/policy/kit/leverage_scores.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

void leverage(PolicyEntry& entry) {
  entry.summary = "keys, before RoPE, that the others cannot stand in for";
  entry.traits.reads_queries = false;
  entry.formula =
      "score_i = x_i (XᵀX + ridge I)⁻¹ x_iᵀ, X = (K − mean) Φ, K: keys before RoPE, Φ: random "
      "projection";
  entry.source = "Compactor (Chari and Van Durme, 2025, arXiv 2507.08143)";
  entry.needs = "keys; the rotation of RoPE";
  entry.work = "n d sketch + n sketch² operations per head; sketch=0: n d²";
  entry.differences =
      "kvpress ends with standard scores over the layer, which keep the order; its random numbers "
      "differ. sketch=0 is the leverage that the projection estimates";
  entry.parameters = {
      count_parameter("sketch", 48.0, 0, 4096,
                      "columns of the random projection; 0, or at least as many as a "
                      "head has coordinates: without projection"),
      number_parameter("ridge", 0.01, 1e-9, 1e6, "added to the diagonal of XᵀX"),
      count_parameter("seed", 0.0, 0, 1e9, "seed of the random projection")};
  entry.variants = {{"the paper, and kvpress", "leverage"}, {"exact", "leverage(sketch=0)"}};
  entry.builder = ScoreBuilder{
      [](const SpecPart& part, const LayerContext& context) {
        return make_copyable<ScoreOfHeads<LeverageKeys>>(leverage_of_heads(part, context));
      },
      ScoreScale::common};
}

}  // namespace kvloupe::policies

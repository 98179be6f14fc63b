// noncausal: the attention an entry gets within its own chunk, from before it and after it.

#include "analysis/policy/kit/chunk_attention.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class NonCausalScore : public Score {
 public:
  NonCausalScore(const SpecPart& part, const LayerContext& context)
      : chunks_(context, {.chunk = part.count("chunk"),
                          .scaled = part.count("scaled") == 1,
                          .padded = part.count("padded") == 1}) {}

  bool needs_values() const override { return true; }
  void observe(const StepView& view, int head) override { chunks_.observe(view, head); }

  std::vector<float> score(const StepView& view, int head) override {
    const MatrixView& values = view.caches[static_cast<std::size_t>(head)].values;
    std::vector<double> scores = chunks_.of(head);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] *= std::sqrt(squared_length(values, static_cast<Eigen::Index>(i)));
    }
    return to_float(smoothed(scores, 3, Pool::mean, static_cast<int>(scores.size())));
  }

  void retain(const StepView&, int head, const HeadDecision& decision) override {
    chunks_.retain(head, decision);
  }

 private:
  ChunkAttention chunks_;
};
}  // namespace

void noncausal(PolicyEntry& entry) {
  entry.summary =
      "the attention that an entry gets within its own chunk, even from the queries before it";
  entry.formula =
      "score_i = mean over 3 neighbours of a_i ‖v_i‖₂, a_i: sum over the queries of the chunk of "
      "softmax without a causal mask, mean over the group";
  entry.source = "Compactor (Chari and Van Durme, 2025, arXiv 2507.08143)";
  entry.needs = "queries and keys of new tokens; a score per entry that is carried along";
  entry.work = "B chunk products of length d per query head";
  entry.differences =
      "kvpress takes q·k without its scale (scaled=0), fills a short chunk with zeros (padded=1), "
      "and ends with standard scores over the layer, which keep the order. A step of fewer tokens "
      "than a chunk is one chunk";
  entry.parameters = {
      count_parameter("chunk", 256.0, 1, 1e6, "tokens of a chunk"),
      flag_parameter("scaled", 1.0, "0: the products q·k as they are"),
      flag_parameter("padded", 0.0, "1: a chunk that is too short is filled up with zeros")};
  entry.variants = {{"the paper", "noncausal"}, {"kvpress", "noncausal(scaled=0,padded=1)"}};
  entry.builder = ScoreBuilder{made_of<NonCausalScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies

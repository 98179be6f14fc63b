// random: a baseline without knowledge.

#include <cstdint>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// A fixed hash of (seed, layer, head, token): an entry's score never changes, so that survival
/// does not favour recent tokens.
class RandomScore : public Score {
 public:
  RandomScore(const SpecPart& part, const LayerContext& context)
      : seed_(static_cast<std::uint64_t>(part.number("seed"))), layer_(context.layer) {}
  std::vector<float> score(const StepView& view, int head) override {
    std::vector<float> result;
    for (const std::int32_t token : view.caches[static_cast<std::size_t>(head)].tokens) {
      result.push_back(token_hash(seed_, layer_, head, token));
    }
    return result;
  }

 private:
  std::uint64_t seed_;
  int layer_;
};
}  // namespace

void random(PolicyEntry& entry) {
  entry.traits.is_chance = true;
  entry.summary = "chooses entries by a fixed hash; a baseline";
  entry.traits.reads_queries = false;
  entry.formula = "score_i = hash(seed, layer, head, token index of i) in [0, 1)";
  entry.source = "a baseline of kvloupe's own";
  entry.needs = "token indices";
  entry.work = "n hashes";
  entry.differences =
      "codes that draw again at each step lose old tokens; a fixed hash gives every token the same "
      "chance";
  entry.parameters = {
      count_parameter("seed", 0.0, 0, 9007199254740991.0, "another seed, another choice")};
  entry.builder = ScoreBuilder{made_of<RandomScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies

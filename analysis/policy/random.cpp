// random: a baseline without knowledge.

#include <cstdint>

#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
/// One round of splitmix64's output function.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

/// A fixed hash of (seed, layer, head, token): an entry's score never changes, so that survival
/// does not favour recent tokens.
class RandomScore : public Score {
 public:
  RandomScore(std::uint64_t seed, int layer) : seed_(seed), layer_(layer) {}
  std::vector<float> score(const StepView& view, int head) override {
    const std::uint64_t own =
        scramble(scramble(scramble(seed_) + static_cast<std::uint64_t>(layer_)) +
                 static_cast<std::uint64_t>(head));
    std::vector<float> result;
    for (const std::int32_t token : view.caches[static_cast<std::size_t>(head)].tokens) {
      // 24 bits are what a float holds exactly: uniform in [0, 1).
      const std::uint64_t bits = scramble(own + static_cast<std::uint64_t>(token)) >> 40U;
      result.push_back(static_cast<float>(bits) * 0x1p-24F);
    }
    return result;
  }

 private:
  std::uint64_t seed_;
  int layer_;
};
}  // namespace

PolicyEntry random() {
  PolicyEntry entry;
  entry.name = "random";
  entry.summary = "entries chosen by a fixed hash, a baseline";
  entry.formula = "score_i = hash(seed, layer, head, token index of i) in [0, 1)";
  entry.source = "a baseline of kvloupe's own";
  entry.differences =
      "codes that draw anew at each step let old tokens die out; a fixed hash gives every token "
      "the "
      "same chance";
  entry.parameters = {{.name = "seed",
                       .type = ParameterType::count,
                       .default_value = 0.0,
                       .minimum = 0,
                       .maximum = 9007199254740991.0,
                       .words = {},
                       .meaning = "another seed, another choice"}};
  entry.make_score = [](const SpecPart& part, const LayerContext& context) {
    return std::make_unique<RandomScore>(static_cast<std::uint64_t>(part.number("seed")),
                                         context.layer);
  };
  return entry;
}

}  // namespace kvloupe::policies

// strided: a policy of one file. Every stride-th token is kept, then the latest of the others.

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/stages.h"
#include "tests/examples/examples.h"

namespace kvloupe::examples {

namespace {

class StridedScore : public Score {
 public:
  explicit StridedScore(int stride) : stride_(stride) {}

  /// [n], higher = kept: the token's index, and more than any index where the stride meets it.
  std::vector<float> score(const StepView& view, int head) override {
    std::vector<float> scores;
    for (const std::int32_t token : view.caches[static_cast<std::size_t>(head)].tokens) {
      const bool met = token % stride_ == 0;
      scores.push_back(static_cast<float>(token) + (met ? 1e6F : 0.0F));
    }
    return scores;
  }

 private:
  int stride_;
};

}  // namespace

PolicyEntry strided() {
  PolicyEntry entry;
  entry.name = "strided";
  entry.summary = "every stride-th token is kept, then the latest of the others";
  entry.formula = "score_i = i, plus 1e6 where i mod stride = 0";
  entry.source = "an example of kvloupe's own, after the strided pattern of Sparse Transformers";
  entry.parameters = {count_parameter("stride", 4.0, 1, 1e6,
                                      "the distance between two tokens that are kept first")};
  entry.builder =
      ScoreBuilder{[](const SpecPart& part, const LayerContext&) {
                     return std::make_unique<StridedScore>(static_cast<int>(part.number("stride")));
                   },
                   ScoreScale::common};
  return entry;
}

}  // namespace kvloupe::examples

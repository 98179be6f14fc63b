// sink: StreamingLLM, the first tokens and the most recent ones.

#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class SinkScore : public Score {
 public:
  explicit SinkScore(const SpecPart& part) : sinks_(part.count("n")) {}
  Protection protection() const override { return {.sink_tokens = sinks_}; }
  std::vector<float> score(const StepView& view, int head) override {
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    return {tokens.begin(), tokens.end()};
  }

 private:
  int sinks_;
};
}  // namespace

void sink(PolicyEntry& entry) {
  entry.summary = "keeps the first n tokens and the most recent others (StreamingLLM)";
  entry.traits.reads_queries = false;
  entry.formula = "score_i = token index of i; tokens 0 to n - 1 are kept first";
  entry.source = "Xiao et al., Efficient Streaming Language Models with Attention Sinks";
  entry.needs = "token indices";
  entry.work = "n comparisons";
  entry.differences =
      "StreamingLLM itself numbers positions by place in the cache, others keep the original ones, "
      "as here; one code keeps the budget minus a window from the start instead of 4";
  entry.parameters = {count_parameter("n", 4.0, 0, 1e6, "how many of the first tokens are kept")};
  entry.cost = [](const SpecPart&) {
    return CostOrder{"O(N)", "O(1)",
                     [](const StepShape& step) { return step.entries - step.block; },
                     [](const StepShape&) { return 1.0; }};
  };
  entry.own_protection = protects("n");
  entry.builder = ScoreBuilder{made_of<SinkScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies

// valuerange: entries whose value spans a large range.

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class ValueRangeScore : public Score {
 public:
  explicit ValueRangeScore(const SpecPart& part) : sinks_(part.count("sinks")) {}

  Protection protection() const override { return {.sink_tokens = sinks_}; }
  bool needs_values() const override { return true; }

  std::vector<float> score(const StepView& view, int head) override {
    const MatrixView& values = view.caches[static_cast<std::size_t>(head)].values;
    return value_ranges(values, values.rows());
  }

 private:
  int sinks_;
};
}  // namespace

void valuerange(PolicyEntry& entry) {
  entry.summary = "entries whose value spans a large range; their loss is said to begin loops";
  entry.traits.reads_queries = false;
  entry.formula = "score_i = max_c v_ic - min_c v_ic";
  entry.source = "the measure by which VaSE pins entries (2026, arXiv 2606.03928)";
  entry.needs = "values";
  entry.work = "2 n d comparisons per head";
  entry.parameters = {count_parameter("sinks", 4.0, 0, 1e6, "first tokens that are always kept")};
  entry.own_protection = protects("sinks");
  entry.builder = ScoreBuilder{made_of<ValueRangeScore>, ScoreScale::per_head};
}

}  // namespace kvloupe::policies

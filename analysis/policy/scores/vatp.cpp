// vatp: accumulated attention times the value's length.

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class VatpScore : public Score {
 public:
  VatpScore(const SpecPart& part, const LayerContext& context)
      : sinks_(part.count("sinks")), accumulated_(context.model) {}

  Protection protection() const override { return {.sink_tokens = sinks_}; }
  bool needs_values() const override { return true; }
  void observe(const StepView& view, int head) override { accumulated_.observe(view, head); }

  std::vector<float> score(const StepView& view, int head) override {
    const MatrixView& values = view.caches[static_cast<std::size_t>(head)].values;
    std::vector<double> scores = accumulated_.of(head);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] *= values.row(static_cast<Eigen::Index>(i)).cast<double>().lpNorm<1>();
    }
    return to_float(scores);
  }

  void retain(const StepView&, int head, const HeadDecision& decision) override {
    accumulated_.retain(head, decision);
  }

 private:
  int sinks_;
  AccumulatedAttention accumulated_;
};
}  // namespace

void vatp(PolicyEntry& entry) {
  entry.summary = "heavy hitters, weighed by the length of their value";
  entry.formula = "score_i = a_i ‖v_i‖₁, a_i: accumulated attention, mean over the group";
  entry.source = "VATP (Guo et al., 2024, arXiv 2406.12335)";
  entry.needs = "as h2o, and values";
  entry.work = "n B products of length d per query head, as h2o";
  entry.differences =
      "its authors keep half of the budget for recent tokens: vatp+recent(50%). The paper also "
      "multiplies the scores of Scissorhands";
  entry.parameters = {count_parameter(
      "sinks", 20.0, 0, 1e6,
      "first tokens that are always kept: their values are small whatever their attention")};
  entry.variants = {{"its authors, over H2O", "vatp+recent(50%)"},
                    {"without recent tokens", "vatp"}};
  entry.cost = costs("O(NB + B²)", [](const StepShape& step) { return step.entries * step.block; });
  entry.own_protection = protects("sinks");
  entry.builder = ScoreBuilder{made_of<VatpScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies

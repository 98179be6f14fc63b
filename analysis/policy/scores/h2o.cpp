// h2o: heavy hitters, by accumulated attention.

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class H2oScore : public Score {
 public:
  H2oScore(const SpecPart& part, const LayerContext& context)
      : accumulated_(context.model), per_query_(part.word("normalise") == "visible") {}

  void observe(const StepView& view, int head) override { accumulated_.observe(view, head); }

  std::vector<float> score(const StepView& view, int head) override {
    const std::vector<double>& sums = accumulated_.of(head);
    if (!per_query_) return to_float(sums);
    // Entry i was visible to its own query and to every later one, or it would have left.
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    std::vector<float> result(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      result[i] = static_cast<float>(sums[i] / (view.block.end - tokens[i]));
    }
    return result;
  }

  double rows_summed(const StepView& view) const override {
    return per_query_ ? 1.0 : static_cast<double>(view.block.end - view.first_token);
  }

  void retain(const StepView&, int head, const HeadDecision& decision) override {
    accumulated_.retain(head, decision);
  }

 private:
  AccumulatedAttention accumulated_;
  bool per_query_;
};
}  // namespace

void h2o(PolicyEntry& entry) {
  entry.summary = "heavy hitters: the attention that an entry has received so far";
  entry.formula = "a_i <- a_i + sum over the step's queries of A[:, i], mean over the group";
  entry.source = "Zhang et al., H2O; KeyDiff A.1; CAOTE eq. 28";
  entry.needs = "the attention of all queries of a step, and a sum per entry that is carried along";
  entry.work = "n B products of length d per query head";
  entry.differences =
      "the original keeps half its budget for recent tokens: h2o+recent(50%); the plain sum "
      "favours early tokens, kvpress takes normalise=visible";
  entry.parameters = {
      word_parameter("normalise", "none", {"none", "visible"},
                     "visible: divide by the number of queries that could see the entry")};
  entry.variants = {{"plain (KeyDiff A.1, CAOTE eq. 28): the sum", "h2o"},
                    {"the original: half the budget recent", "h2o+recent(50%)"},
                    {"kvpress: mean over the queries that could see it", "h2o(normalise=visible)"}};
  // NB + B² = nB.
  entry.cost = costs("O(NB + B²)", [](const StepShape& step) { return step.entries * step.block; });
  entry.builder = ScoreBuilder{made_of<H2oScore>};
}

}  // namespace kvloupe::policies

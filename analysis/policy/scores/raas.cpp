// raas: entries that were important most recently.

#include <algorithm>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/top_selection.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// A stamp for each entry: the token of the last query that had it among its most attended.
class RaasScore : public Score {
 public:
  RaasScore(const SpecPart& part, const LayerContext& context)
      : top_(part.number("top")),
        model_(context.model),
        stamps_(static_cast<std::size_t>(model_.num_kv_heads)) {}

  void observe(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    std::vector<std::int32_t>& stamps = stamps_[static_cast<std::size_t>(head)];
    for (std::size_t row = stamps.size(); row < cache.tokens.size(); ++row) {
      stamps.push_back(cache.tokens[row]);
    }
    if (stamps.empty()) return;
    const std::vector<double> attention =
        group_mean(model_, head, stamps.size(),
                   [&](int query_head) { return view.attention->last_rows(query_head, 1).row(0); });
    const long count = std::max(Percent{top_}.of(std::ssize(stamps)), 1L);
    std::vector<Fate> marks(stamps.size(), Fate::evicted);
    mark_highest(to_float(attention), static_cast<int>(count), Fate::by_score, marks);
    for (std::size_t row = 0; row < stamps.size(); ++row) {
      if (marks[row] == Fate::by_score) stamps[row] = view.block.end - 1;
    }
  }

  std::vector<float> score(const StepView&, int head) override {
    const auto& stamps = stamps_[static_cast<std::size_t>(head)];
    return {stamps.begin(), stamps.end()};  // a float holds every token's number
  }

  void retain(const StepView&, int head, const HeadDecision& decision) override {
    keep_rows(stamps_[static_cast<std::size_t>(head)], decision.kept);
  }

 private:
  double top_;
  ModelInfo model_;
  std::vector<std::vector<std::int32_t>> stamps_;  // [Hk][n]
};
}  // namespace

void raas(PolicyEntry& entry) {
  entry.summary = "entries leave in the order in which they were last important";
  entry.formula =
      "score_i = the token of the last query that had entry i among the top % of its head's "
      "entries by attention (mean over the group); at first the entry's own token";
  entry.source = "RaaS (Hu et al., 2025), as the code of EpiKV (2026, arXiv 2606.26472) has it";
  entry.needs = "the attention of the last query, and a number per entry that is carried along";
  entry.work = "n products of length d per query head, and n comparisons, at every step";
  entry.differences =
      "RaaS keeps the prompt: add protect_prompt. Of a block only the last query stamps. EpiKV's "
      "code keeps one set for all heads";
  entry.parameters = {number_parameter("top", 50.0, 0.001, 100,
                                       "percent of the entries that a query stamps, at least one")};
  entry.builder = ScoreBuilder{made_of<RaasScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies

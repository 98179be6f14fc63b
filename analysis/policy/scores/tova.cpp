// tova: the attention of the last query.

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// score_i = last row of A, mean over the query heads of the group, or of the whole layer.
class TovaScore : public Score {
 public:
  TovaScore(const SpecPart& part, const LayerContext& context)
      : model_(context.model),
        whole_layer_(part.word("aggregate") == "layer"),
        protect_last_(part.count("protect_last")) {}

  Protection protection() const override { return {.window = protect_last_}; }

  void prepare(const StepView& view, int /*budget*/) override {
    if (!whole_layer_) return;
    // One set for the layer: every head scores alike and so keeps alike, hence equal caches.
    const std::size_t n = view.caches.front().tokens.size();
    for (const CacheView& cache : view.caches) {
      if (cache.tokens.size() != n) {
        throw WorkError("tova: aggregate=layer needs the same entries in every head of a layer");
      }
    }
    std::vector<double> mean(n, 0.0);
    for (int head = 0; head < model_.num_kv_heads; ++head) {
      const std::vector<double> own = group_rows(view, head);
      for (std::size_t i = 0; i < n; ++i) mean[i] += own[i] / model_.num_kv_heads;
    }
    layer_scores_ = to_float(mean);
  }

  std::vector<float> score(const StepView& view, int head) override {
    return whole_layer_ ? layer_scores_ : to_float(group_rows(view, head));
  }

 private:
  std::vector<double> group_rows(const StepView& view, int head) const {
    const std::size_t n = view.caches[static_cast<std::size_t>(head)].tokens.size();
    return group_mean(model_, head, n, [&](int query_head) {
      return view.attention->last_rows(query_head, 1).row(0);
    });
  }

  ModelInfo model_;
  bool whole_layer_;
  int protect_last_;
  std::vector<float> layer_scores_;
};
}  // namespace

void tova(PolicyEntry& entry) {
  entry.summary = "the attention that the step's last query pays to an entry";
  entry.formula = "score_i = mean over query heads of A[last query, i]";
  entry.source = "Oren et al., Transformers are Multi-State RNNs; by group as KeyDiff B.2";
  entry.needs = "the attention of the last query";
  entry.work = "n products of length d per query head";
  entry.differences =
      "the original and kvpress keep one set for the layer: aggregate=layer; kvpress also always "
      "keeps the last token: protect_last=1";
  entry.parameters = {
      word_parameter("aggregate", "group", {"group", "layer"},
                     "mean over the query heads of the group, or of the whole layer with "
                     "one set for all its heads"),
      flag_parameter("protect_last", 0.0, "1: the last token is always kept")};
  entry.variants = {{"plain (KeyDiff B.2): by group", "tova"},
                    {"the original: one set per layer", "tova(aggregate=layer)"},
                    {"kvpress: the same, last token kept", "tova(aggregate=layer,protect_last=1)"}};
  entry.cost = costs("O(N + B)", [](const StepShape& step) { return step.entries; });
  entry.own_protection = protects("", "protect_last");
  entry.builder = ScoreBuilder{
      .make = made_of<TovaScore>,
      .keeps_one_set = [](const SpecPart& part) { return part.word("aggregate") == "layer"; }};
}

}  // namespace kvloupe::policies

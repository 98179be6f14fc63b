// simlayer: layers whose last queries look at the first and the last tokens only keep just these.

#include <algorithm>
#include <vector>

#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class SimLayer : public LayerPolicy {
 public:
  SimLayer(const SpecPart& part, const LayerContext& context)
      : model_(context.model),
        threshold_(part.number("threshold")),
        first_(part.count("first")),
        recent_(part.count("recent")),
        queries_(part.count("queries")) {}

  std::vector<HeadDecision> step(const StepView& view) override {
    const bool lazy = is_lazy(view);
    std::vector<HeadDecision> decisions(view.caches.size());
    for (std::size_t head = 0; head < decisions.size(); ++head) {
      HeadDecision& decision = decisions[head];
      const int n = static_cast<int>(view.caches[head].tokens.size());
      std::vector<Fate> fates(static_cast<std::size_t>(n), Fate::evicted);
      for (int row = 0; row < n; ++row) {
        Fate& fate = fates[static_cast<std::size_t>(row)];
        if (row >= n - std::max(recent_ - queries_, 1)) fate = Fate::recent;
        if (row < first_) fate = Fate::sink;
        if (!lazy || fate != Fate::evicted) decision.kept.push_back(row);
      }
      if (static_cast<int>(decision.kept.size()) < n) decision.fates = std::move(fates);
    }
    return decisions;
  }

 private:
  /// Whether the last queries' attention to the first and the last entries, these queries' own left
  /// out, is above the threshold: mean over query heads and queries.
  bool is_lazy(const StepView& view) const {
    double sum = 0.0;
    long rows_read = 0;
    for (std::size_t head = 0; head < view.caches.size(); ++head) {
      const int n = static_cast<int>(view.caches[head].tokens.size());
      // As kvpress: a short cache is kept.
      if (n <= first_ + recent_ + queries_) return false;
      const int group = model_.group_size();
      for (int i = 0; i < group; ++i) {
        const MatrixView rows =
            view.attention->last_rows(static_cast<int>(head) * group + i, queries_);
        const int before = n - queries_;  // columns that count
        for (Eigen::Index row = 0; row < rows.rows(); ++row) {
          for (int column = 0; column < before; ++column) {
            // kvpress adds the first and the last, also where they overlap.
            const double value = static_cast<double>(rows(row, column));
            if (column < first_) sum += value;
            if (column >= before - recent_) sum += value;
          }
          ++rows_read;
        }
      }
    }
    return rows_read > 0 && sum / static_cast<double>(rows_read) > threshold_;
  }

  ModelInfo model_;
  double threshold_;
  int first_, recent_, queries_;
};
}  // namespace

void simlayer(PolicyEntry& entry) {
  entry.summary =
      "lazy layers, which attend to the first and last tokens, keep only these; other layers keep "
      "all";
  entry.traits.budget_is_outcome = true;
  entry.formula =
      "a layer is lazy if the last queries give the first and the last `recent` entries before "
      "them more than `threshold` of their attention, mean over query heads; it keeps the `first` "
      "entries and the last recent - queries; a cache of at most first + recent + queries is kept";
  entry.source = "SimLayerKV (Zhang et al., 2024, arXiv 2410.13846); as kvpress";
  entry.needs = "the attention of the last queries of all heads of a layer";
  entry.work = "n queries products of length d per query head";
  entry.differences =
      "thresholds: 0.9 for Llama 3, 0.65 for Llama 2, 0.8 for Mistral, 0.85 for Qwen; kvpress "
      "decides once, at the prompt's end, kvloupe at every step, for the entries still in the "
      "cache";
  entry.parameters = {
      number_parameter("threshold", 0.9, 0.0, 2.0,
                       "attention to the first and last entries above which a layer is lazy"),
      count_parameter("first", 4.0, 0, 1e6, "first entries that a lazy layer keeps"),
      count_parameter("recent", 1024.0, 1, 1e6,
                      "last entries that a lazy layer keeps, less `queries`"),
      count_parameter("queries", 1.0, 1, 1000,
                      "queries at the end of a step whose attention decides")};
  entry.example = "simlayer(recent=128)";
  entry.builder = WholePolicyBuilder{made_of<SimLayer>};
  entry.notes =
      always("simlayer: a layer keeps its first and last entries or all; the budget has no effect");
}

}  // namespace kvloupe::policies

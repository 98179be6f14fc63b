// duo: heads that look far back keep everything, the others their first and last tokens.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "analysis/policy/kit/future_rotation.h"
#include "analysis/policy/kit/head_table_file.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// The score of each key-value head: the mean of its query heads.
HeadTable scores_of(const SequenceTables& tables, int positions) {
  HeadTable table;
  for (const int layer : tables.trace().storing_layers()) {
    const ModelInfo& model = tables.trace().layer_model(layer);
    for (int head = 0; head < model.num_kv_heads; ++head) {
      tables.check();
      double sum = 0.0;
      for (int i = 0; i < model.group_size(); ++i) {
        sum += far_sight(tables, layer, head * model.group_size() + i, positions);
      }
      table.push_back(sum / model.group_size());
    }
  }
  return table;
}

/// For each head of the layer, whether it keeps its first and last tokens only. These are the heads
/// with the lowest scores over all layers; of equal scores, the first.
std::vector<bool> streaming_heads(const HeadTable& scores, const LayerContext& context,
                                  double share) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  const auto count =
      static_cast<std::size_t>(std::nearbyint(share * static_cast<double>(order.size())));
  std::vector<bool> streaming(static_cast<std::size_t>(context.model.num_kv_heads), false);
  const auto first = static_cast<std::size_t>(context.model.cache_heads_before(context.layer));
  for (std::size_t i = 0; i < count; ++i) {
    if (order[i] >= first && order[i] < first + streaming.size())
      streaming[order[i] - first] = true;
  }
  return streaming;
}

class Duo : public LayerPolicy {
 public:
  Duo(const SpecPart& part, const LayerContext& context)
      : sinks_(part.count("sinks")), recent_(part.count("recent")) {
    const std::string& path = part.word("table");
    const double share = part.number("streaming");
    if (!path.empty()) {
      streaming_ = streaming_heads(read_head_table(path, context.model), context, share);
      return;
    }
    const auto tables = tables_of(part, context);
    const int positions = part.count("positions");
    const HeadTable& scores =
        tables->once("duo " + std::to_string(positions),
                     [&](const SequenceTables& all) { return scores_of(all, positions); });
    streaming_ = streaming_heads(scores, context, share);
  }

  std::vector<HeadDecision> step(const StepView& view) override {
    std::vector<HeadDecision> decisions(view.caches.size());
    for (std::size_t head = 0; head < decisions.size(); ++head) {
      HeadDecision& decision = decisions[head];
      const auto& tokens = view.caches[head].tokens;
      const int n = static_cast<int>(tokens.size());
      std::vector<Fate> fates(tokens.size(), Fate::evicted);
      for (int row = 0; row < n; ++row) {
        const auto index = static_cast<std::size_t>(row);
        if (row >= n - recent_) fates[index] = Fate::recent;
        if (tokens[index] < sinks_) fates[index] = Fate::sink;
        if (streaming_[head] && fates[index] == Fate::evicted) continue;
        decision.kept.push_back(row);
      }
      // A cache that keeps at least one entry: attention over nothing has no meaning.
      if (decision.kept.empty() && n > 0) {
        decision.kept.push_back(n - 1);
        fates.back() = Fate::recent;
      }
      if (static_cast<int>(decision.kept.size()) < n) decision.fates = std::move(fates);
    }
    return decisions;
  }

 private:
  int sinks_, recent_;
  std::vector<bool> streaming_;  // [Hk]
};
}  // namespace

void duo(PolicyEntry& entry) {
  entry.summary =
      "heads that look far back keep all entries, the others only the first and the last";
  entry.traits.reads_queries = false;
  entry.traits.reads_sequence = true;
  entry.traits.budget_is_outcome = true;
  entry.formula =
      "streaming heads: the lowest round(streaming L Hk) scores of all heads; score of a query "
      "head: mean over positions of the sums of softmax(s q·R(distance)k), q, k: means before RoPE";
  entry.source =
      "DuoAttention (Xiao et al., 2024, arXiv 2410.10819); without training as in kvpress";
  entry.needs = "token indices; once before the first step the queries and keys of all layers";
  entry.work = "n comparisons; once T d operations per head";
  entry.differences =
      "the authors train a gate for each head: table=\"file\". kvpress takes means over 50 long "
      "texts; here they are over the prompt, or another trace";
  entry.parameters = {
      number_parameter(
          "streaming", 0.5, 0.0, 1.0,
          "share of the heads of all layers that keep their first and last entries only"),
      count_parameter("sinks", 128.0, 0, 1e6, "first tokens that streaming heads keep"),
      count_parameter("recent", 256.0, 0, 1e6, "last entries that streaming heads keep"),
      count_parameter("positions", 500.0, 1, 100000,
                      "number of distances over which a head's score is the mean"),
      file_parameter("table",
                     "a file with a score for each layer and head, in quotes (as for headbudgets); "
                     "higher: looks farther back"),
      statistics_parameter()};
  entry.example = "duo(sinks=4,recent=64)";
  entry.variants = {{"the paper, and kvpress", "duo"}};
  entry.builder = WholePolicyBuilder{made_of<Duo>};
  entry.limits = [](const SpecPart& part, const ModelInfo& model, int, int) {
    if (!part.word("table").empty()) read_head_table(part.word("table"), model);
  };
  entry.notes = [](const SpecPart& part, const ModelInfo& model, int) {
    const long heads = model.all_cache_heads();
    return "duo: " +
           std::to_string(
               std::lround(std::nearbyint(part.number("streaming") * static_cast<double>(heads)))) +
           " of " + std::to_string(heads) +
           " heads keep their first and last entries only; the budget has no effect";
  };
}

}  // namespace kvloupe::policies

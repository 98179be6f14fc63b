// headbudgets: each head's share of the budget stands in a table.

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/policy/kit/head_table_file.h"
#include "analysis/policy/kit/layer_preference.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
enum class TableValues { weight, share, entries, kept };

class TableAllocation : public Allocation {
 public:
  TableAllocation(const SpecPart& part, const LayerContext& context)
      : table_(read_head_table(part.word("file"), context.model)),
        first_(context.model.cache_heads_before(context.layer)),
        floor_(part.number("floor")) {
    const std::string& values = part.word("values");
    values_ = values == "weight"    ? TableValues::weight
              : values == "share"   ? TableValues::share
              : values == "entries" ? TableValues::entries
                                    : TableValues::kept;
  }

  bool over_budget(const StepView& view, int budget) const override {
    for (std::size_t head = 0; head < view.caches.size(); ++head) {
      if (static_cast<int>(view.caches[head].tokens.size()) > places(view, head, budget)) {
        return true;
      }
    }
    return false;
  }

  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>&,
                          const Protection&, int budget) const override {
    std::vector<int> quotas;
    for (std::size_t head = 0; head < view.caches.size(); ++head) {
      const int n = static_cast<int>(view.caches[head].tokens.size());
      quotas.push_back(std::min(n, places(view, head, budget)));
    }
    return quotas;
  }

 private:
  /// How many entries the head may hold after the step.
  int places(const StepView& view, std::size_t head, int budget) const {
    const int seen = view.block.end - view.first_token;
    const int index = first_ + static_cast<int>(head);
    const double value = table_[static_cast<std::size_t>(index)];
    double entries = 0.0;
    switch (values_) {
      case TableValues::weight:
        return layer_share(table_, index, budget, floor_ * budget, seen);
      case TableValues::share:
        entries = value * budget;
        break;
      case TableValues::entries:
        entries = value;
        break;
      case TableValues::kept:
        entries = value * seen;
        break;
    }
    return std::clamp(static_cast<int>(std::nearbyint(std::min(entries, 1e9))), 1,
                      std::max(seen, 1));
  }

  HeadTable table_;
  int first_;  // the place of the layer's first head in the table
  double floor_;
  TableValues values_ = TableValues::weight;
};
}  // namespace

void headbudgets(PolicyEntry& entry) {
  entry.summary = "each head of each layer holds what a table says; N is the mean";
  entry.traits.fixes_places = true;
  entry.formula =
      "weight: head h of layer l holds floor N + (1 - floor) N L Hk w_lh / sum w, at most n; what "
      "a head cannot use is shared evenly by the others, then rounded by largest remainder; share: "
      "round(w_lh N); entries: round(w_lh); kept: round(w_lh n); n = tokens seen that later "
      "queries see; halves to even, at least 1, at most n";
  entry.source = "tables as of HeadKV (Fu et al., 2024) and LU-KV";
  entry.needs = "a table";
  entry.work = "L Hk log(L Hk) comparisons, without the scores";
  entry.differences =
      "HeadKV gives every head 1 - 1/beta of the budget beforehand (floor) and adds the window; "
      "its tables are by query head, here their group's mean counts. LU-KV's tables hold pruned "
      "shares: give 1 minus them, with values=kept";
  entry.parameters = {
      file_parameter(
          "file",
          "the table, in quotes: CSV or .npy, a row per layer, a column per head; or CSV "
          "with the columns layer, head, value",
          true),
      word_parameter(
          "values", "weight", {"weight", "share", "entries", "kept"},
          "what the numbers are: weights by which all heads of all layers share the budget; "
          "shares of the budget; entries; shares of the tokens seen"),
      number_parameter("floor", 0.0, 0.0, 1.0,
                       "weight: share of the budget that every head gets in any case")};
  entry.builder = AllocationBuilder{made_of<TableAllocation>};
  entry.refusal = one_set_refusal;
  entry.limits = [](const SpecPart& part, const ModelInfo& model, int, int) {
    read_head_table(part.word("file"), model);
  };
  entry.notes = [](const SpecPart& part, const ModelInfo&, int) -> Lines {
    if (part.word("values") == "weight") return {};
    return (
        "headbudgets: the table sets what each head holds; all heads together need "
        "not hold the budget's number of entries");
  };
}

}  // namespace kvloupe::policies

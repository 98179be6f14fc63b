// dms: whatever has a score above a threshold stays, however many entries these are.

#include <algorithm>
#include <vector>

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
class ThresholdAllocation : public Allocation {
 public:
  explicit ThresholdAllocation(const SpecPart& part) : threshold_(part.number("threshold")) {}

  bool bounded() const override { return false; }
  bool over_budget(const StepView&, int) const override { return true; }

  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>& scores,
                          const Protection& protection, int /*budget*/) const override {
    std::vector<int> quotas;
    for (std::size_t head = 0; head < view.caches.size(); ++head) {
      const auto& tokens = view.caches[head].tokens;
      const int n = static_cast<int>(tokens.size());
      const std::vector<Fate> fates = protection.fates(static_cast<int>(head), tokens, n);
      int count = 0;
      for (std::size_t row = 0; row < tokens.size(); ++row) {
        if (fates[row] != Fate::evicted || scores[head][row] >= threshold_) ++count;
      }
      // A head keeps one entry at least: attention over nothing has no meaning.
      quotas.push_back(std::max(count, std::min(n, 1)));
    }
    return quotas;
  }

 private:
  double threshold_;
};
}  // namespace

void dms(PolicyEntry& entry) {
  entry.summary = "entries with a score of at least the threshold stay, however many these are";
  entry.traits.budget_is_outcome = true;
  entry.formula =
      "kept = {i : score_i >= threshold}, the protected entries, and at least one entry";
  entry.source = "kvpress's DMSPress, after DMS (Lancucki et al., 2025, arXiv 2506.05345)";
  entry.needs = "the scores";
  entry.work = "n comparisons";
  entry.differences =
      "DMS trains a model to give the decisions; kvpress takes any score, KVzap's in its examples, "
      "and protects the last 128 entries: add recent(128)";
  entry.parameters = {
      number_parameter("threshold", 0.0, -1e30, 1e30,
                       "the lowest score that stays; scores have the scale of the policy's score")};
  entry.parameters.front().required = true;
  entry.example = "keydiff+recent(128)+dms(-0.6)";
  entry.builder = AllocationBuilder{made_of<ThresholdAllocation>};
  entry.refusal = [](const SpecPart& part, const PolicySpec& spec) -> std::string {
    for (const SpecPart& other : spec.parts) {
      const PolicyEntry& found = *find_policy(other.name);
      if (found.as<LayerBudgetBuilder>() != nullptr || found.as<MergingBuilder>() != nullptr ||
          found.as<SelectionBuilder>() != nullptr) {
        return other.name + " shares out a budget, which a threshold does not have";
      }
    }
    return one_set_refusal(part, spec);
  };
  entry.notes = always(
      "dms keeps what passes its threshold; the budget counts only where another part gives a "
      "percentage of it");
}

}  // namespace kvloupe::policies

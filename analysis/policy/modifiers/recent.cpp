// recent: the last tokens are kept.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void recent(PolicyEntry& entry) {
  entry.traits.protects_last = true;
  entry.summary = "keeps the most recent entries, inside the budget";
  entry.formula = "the last r entries of the cache are kept whatever their score";
  entry.source = "KeyDiff table 11 (10 % and 20 % of the budget); H2O (50 %)";
  entry.needs = "positions in the cache";
  entry.work = "none";
  entry.parameters = {
      share_parameter("r", Percent{10.0}, 0, 1e6, "a count of entries, or a share of the budget")};
  entry.builder = ProtectionBuilder{[](const SpecPart& part, const LayerContext& context) {
    return Protection{.recent = part.share("r", context.budget)};
  }};
}

}  // namespace kvloupe::policies

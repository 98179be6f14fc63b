// slack: the policy waits until the budget is exceeded by more than so many entries.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void slack(PolicyEntry& entry) {
  entry.summary = "acts once the cache exceeds the budget by more than m entries";
  entry.formula =
      "entries leave, down to the budget N, where a head holds more than N + m entries (under "
      "adakv: where the layer's heads do on average). So a head holds at most N + m after a step";
  entry.source = "the buffer of R-KV, and of other codes that compress while a model writes";
  entry.needs = "nothing";
  entry.work = "none; the policy scores at fewer steps";
  entry.differences =
      "a code that compresses as soon as N + b entries are there, as R-KV's with b = 128, is "
      "slack(b - 1)";
  entry.parameters = {
      share_parameter("m", 128.0, 0, 1e6, "a count of entries, or a share of the budget")};
  entry.example = "rkv+slack(127)";
  entry.builder = ScheduleBuilder{[](const SpecPart& part, const LayerContext& context) {
    return Schedule{.slack = part.share("m", context.budget)};
  }};
  entry.refusal = [](const SpecPart&, const PolicySpec& spec) -> std::string {
    for (const SpecPart& other : spec.parts) {
      const PolicyTraits& traits = find_policy(other.name)->traits;
      if (traits.budget_is_outcome) {
        return "waits until a budget is exceeded, which " + other.name + " does not have";
      }
      if (traits.shares_layers) {
        return other.name +
               " moves places between layers, and no head has a budget of its own; use every(n)";
      }
    }
    return "";
  };
}

}  // namespace kvloupe::policies

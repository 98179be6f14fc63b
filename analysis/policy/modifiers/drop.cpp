// drop: tokens that a person names leave.

#include "analysis/policy/kit/token_parameters.h"
#include "analysis/policy/kit/token_rule.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void drop(PolicyEntry& entry) {
  entry.summary = "evicts the tokens you name, in the heads you name, as soon as they may leave";
  entry.formula =
      "the named entries leave at the end of the step in which they came, whatever the budget and "
      "their score; until then they count as protected where they lie, so recent(r) with n of the "
      "last r tokens dropped protects r - n";
  entry.source = "an intervention: shows how the result changes without these entries";
  entry.needs = "token indices";
  entry.work = "none";
  entry.parameters = {tokens_parameter(), heads_parameter()};
  entry.builder = RemovalBuilder{[](const SpecPart& part, const LayerContext& context) {
    return TokenRule(part.word("tokens"), part.word("heads"), context);
  }};
  entry.refusal = [](const SpecPart&, const PolicySpec& spec) -> std::string {
    if (!find_policy(spec.score().name)->traits.needs_future) return "";
    return spec.score().name +
           " chooses what to remove with all entries in sight and does not know what is "
           "dropped; use another score";
  };
  entry.limits = [](const SpecPart& part, const ModelInfo& model, int, int tokens) {
    std::vector<TokenRange> ranges;
    read_tokens(part.word("tokens"), ranges);
    count_tokens(ranges, tokens, "drop");
    check_heads(part.word("heads"), model);
  };
}

}  // namespace kvloupe::policies

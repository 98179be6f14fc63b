// sinks: the first tokens are kept.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void sinks(PolicyEntry& entry) {
  entry.traits.protects_first = true;
  entry.summary = "keeps the first tokens, inside the budget";
  entry.formula = "tokens 0 to n - 1 are kept whatever their score";
  entry.source = "Xiao et al., Efficient Streaming Language Models with Attention Sinks";
  entry.needs = "token indices";
  entry.work = "none";
  entry.parameters = {
      share_parameter("n", 4.0, 0, 1e6, "a count of tokens, or a share of the budget")};
  entry.builder = ProtectionBuilder{[](const SpecPart& part, const LayerContext& context) {
    return Protection{.sink_tokens = part.share("n", context.budget)};
  }};
}

}  // namespace kvloupe::policies

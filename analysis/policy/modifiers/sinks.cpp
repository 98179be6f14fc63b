// sinks: the first tokens are kept.

#include "analysis/policy/policies.h"

namespace kvloupe::policies {

PolicyEntry sinks() {
  PolicyEntry entry;
  entry.name = "sinks";
  entry.summary = "keeps the first tokens, inside the budget";
  entry.traits.reads_queries = false;
  entry.formula = "tokens 0 to n - 1 are kept whatever their score";
  entry.source = "Xiao et al., Efficient Streaming Language Models with Attention Sinks";
  entry.needs = "token indices";
  entry.work = "none";
  entry.parameters = {
      share_parameter("n", 4.0, 0, 1e6, "a count of tokens, or a share of the budget")};
  entry.builder = ProtectionBuilder{[](const SpecPart& part, const LayerContext& context) {
    return Protection{.sink_tokens = part.share("n", context.budget)};
  }};
  return entry;
}

}  // namespace kvloupe::policies

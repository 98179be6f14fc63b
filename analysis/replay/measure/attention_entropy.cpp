// attention entropy: over how many tokens a head's queries spread their attention.

#include <cmath>

#include "analysis/math/attention.h"
#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

MeasureFamily attention_entropy() {
  MeasureFamily family;
  family.group = MeasureGroup::full_cache;
  family.name = "Entropy of the attention";
  family.remark =
      "Measured on the trace with the full cache, whatever the policy: the mean over all queries "
      "and over the head's query heads. This needs all T^2/2 products.";
  family.scope = MeasureScope::trace;
  family.on_request = true;
  const StateParts reads{
      .queries = true, .values = false, .output_weights = false, .value_norms = false};
  family.measures = {
      {.name = "attention_entropy",
       .title = "Entropy of the attention",
       .unit = "nats",
       .formula = "mean over q of H(A[q]) = -sum over i of A[q,i] log A[q,i]",
       .source = "Shannon 1948",
       .help = "How widely a query spreads its attention over the tokens, with the full cache.",
       .reads = reads},
      {.name = "effective_tokens",
       .title = "Effective number of tokens",
       .unit = "tokens",
       .formula = "mean over q of exp(H(A[q]))",
       .source = "perplexity of the attention",
       .help = "Over how many tokens a query spreads its attention, with the full cache: exp of "
               "the entropy.",
       .reads = reads}};
  family.of_trace = [](const MeasuredHead& head, std::span<double> values) {
    const int group = head.context.model.group_size();
    values[0] = values[1] = 0.0;
    for (int i = 0; i < group; ++i) {
      const auto query_head = static_cast<std::size_t>(head.head * group + i);
      Progress part(head.progress, 0);
      const std::vector<double> entropy =
          kvloupe::attention_entropy(view(head.states.queries[query_head]),
                                     view(head.states.keys[static_cast<std::size_t>(head.head)]),
                                     head.context.attention.of(static_cast<int>(query_head)),
                                     head.context.model.reach(), part);
      for (const double h : entropy) {
        values[0] += h / static_cast<double>(entropy.size()) / group;
        values[1] += std::exp(h) / static_cast<double>(entropy.size()) / group;
      }
    }
  };
  return family;
}

}  // namespace kvloupe::measures

#include "analysis/replay/budget_entries.h"

#include <algorithm>

#include "analysis/metric/quantisation.h"
#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

Budget parse_entries_budget(std::string_view text) {
  const Budget budget = parse_budget(text);
  if (budget.in_bytes()) budget.resolve(1);  // says that bytes are not known here
  return budget;
}

int budget_entries(const Budget& budget, const PolicySpec& policy,
                   const std::vector<ModelInfo>& layers, int prompt, int tokens) {
  if (!budget.in_bytes()) return budget.resolve(prompt);
  const auto bytes = [&](int entries, const Quantisation& held) {
    double sum = 0.0;
    for (const ModelInfo& model : layers) {
      if (!model.stores()) continue;
      // Tokens that no later query sees leave at any budget.
      const int span = model.reach().all() ? entries : std::min(entries, model.reach().span() - 1);
      sum += model.num_kv_heads * planned_bytes(model, std::max(span, 1), held);
    }
    return sum;
  };
  const Quantisation held = quantisation_of(policy).value_or(kExactEntries);
  return budget.resolve_bytes(bytes(prompt, kExactEntries), tokens,
                              [&](int entries) { return bytes(entries, held); });
}

int budget_entries(const Budget& budget, const Trace& trace, const PolicySpec& policy, int prompt) {
  std::vector<ModelInfo> layers;
  for (int layer = 0; budget.in_bytes() && layer < trace.model().num_layers; ++layer)
    layers.push_back(trace.layer_model(layer));
  if (prompt == 0) prompt = trace.run().prompt_length;
  return budget_entries(budget, policy, layers, prompt, trace.length());
}

}  // namespace kvloupe

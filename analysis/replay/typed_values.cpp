#include "analysis/replay/typed_values.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/math/quantisation.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

Budget parse_entries_budget(std::string_view text) {
  const Budget budget = parse_budget(text);
  if (budget.in_bytes()) budget.resolve(1);  // says that bytes are not known here
  return budget;
}

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view item = text.substr(at, end - at);
    item.remove_prefix(std::min(item.find_first_not_of(" \t"), item.size()));
    items.emplace_back(item.substr(0, item.find_last_not_of(" \t") + 1));
    at = end + 1;
  }
  return items;
}

std::vector<Budget> parse_budgets(std::string_view text) {
  std::vector<Budget> budgets;
  for (const std::string& item : comma_list(text)) budgets.push_back(parse_budget(item));
  return budgets;
}

std::vector<int> parse_blocks(std::string_view text) {
  std::vector<int> blocks;
  for (const std::string& item : comma_list(text)) {
    const auto block = block_in(item, kWholePrompt);
    if (!block) throw UsageError(no_block(item));
    blocks.push_back(*block);
  }
  return blocks;
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

namespace {
int parse_index(std::string_view text, std::string_view what, int count) {
  int value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end || text.front() == '-') {
    throw UsageError(std::string(what) + " '" + std::string(text) +
                     "': is not an index; write a list such as 0-3,7");
  }
  if (error != std::errc() || value >= count) {
    throw UsageError(std::string(what) + " " + std::string(text) + ": the trace has " +
                     std::string(what) + "s 0 to " + std::to_string(count - 1));
  }
  return value;
}
}  // namespace

std::vector<int> parse_index_list(std::string_view text, std::string_view what, int count) {
  std::set<int> indices;
  for (const std::string& item : comma_list(text)) {
    const std::size_t dash = item.find('-', 1);
    if (item.size() > 1 && dash != std::string::npos) {
      const int from = parse_index(item.substr(0, dash), what, count);
      const int to = parse_index(item.substr(dash + 1), what, count);
      if (to < from) {
        throw UsageError(std::string(what) + " '" + item +
                         "': the range runs backwards; write the smaller index first");
      }
      for (int i = from; i <= to; ++i) indices.insert(i);
    } else {
      indices.insert(parse_index(item, what, count));
    }
  }
  return {indices.begin(), indices.end()};
}

}  // namespace kvloupe

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/policy/kit/spec.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// A budget that needs no trace: entries or a share of the prompt. Throws UsageError: bytes, and
/// what parse_budget() refuses.
Budget parse_entries_budget(std::string_view text);

/// The parts of a text between commas, without the blanks around them.
std::vector<std::string> comma_list(std::string_view text);
/// "10%,128", and "32,128,all", where all is kWholePrompt. Throw UsageError, which names the wrong
/// part.
std::vector<Budget> parse_budgets(std::string_view text);
std::vector<int> parse_blocks(std::string_view text);

/// The entries per head that a budget means for a policy on a sequence of `tokens`, of which the
/// first `prompt` are the prompt. In bytes: as many in every head as fit, over all `layers` [L]
/// that hold a cache, with the bits and the scales that the policy's quant says. Entries that leave
/// later can leave scales behind, which then take more than planned. Throws UsageError as
/// Budget::resolve() and resolve_bytes() do.
int budget_entries(const Budget& budget, const PolicySpec& policy,
                   const std::vector<ModelInfo>& layers, int prompt, int tokens);
/// On a trace; by default exact entries, of 16 bits. `prompt`: of its first tokens; 0: its prompt.
int budget_entries(const Budget& budget, const Trace& trace, const PolicySpec& policy = {},
                   int prompt = 0);

/// "0-3,7" as {0, 1, 2, 3, 7}: ascending, without repetition. `what` names the indices in messages.
/// Throws UsageError for anything else, an empty text, or an index not below `count`.
std::vector<int> parse_index_list(std::string_view text, std::string_view what, int count);

}  // namespace kvloupe

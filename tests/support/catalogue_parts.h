#pragma once

#include <algorithm>

#include "analysis/policy/policy_catalog.h"

namespace kvloupe::test {

/// Whether a person must say more than the part's name: a file, a threshold.
inline bool asks_for_more(const PolicyEntry& entry) {
  return std::any_of(entry.parameters.begin(), entry.parameters.end(),
                     [](const ParameterInfo& parameter) { return parameter.required; });
}

/// Whether the part can be tried by its name (or example) alone, in one layer without the others,
/// acts at every step, holds the budget and exact entries: what the tests over the whole catalogue
/// take for granted. The other parts have tests of their own:
/// tests/analysis/sequence_policies_test.cpp, pass_policies_test.cpp, schedule_test.cpp,
/// quant_test.cpp, external in replay_test.cpp.
inline bool stands_alone(const PolicyEntry& entry) {
  return (entry.name == "expr" || !asks_for_more(entry)) && !entry.traits.reads_sequence &&
         !entry.traits.budget_is_outcome && entry.kind() != PartKind::schedule &&
         entry.kind() != PartKind::storage && !entry.traits.reads_prompt_end &&
         !entry.traits.reads_structure && !entry.traits.reads_pass;
}

/// Whether the score takes this modifier: one that makes entries refuses what merges them.
inline bool goes_with(const PolicyEntry& score, const PolicyEntry& modifier) {
  return score.name != "attentionmatching" || modifier.as<MergingBuilder>() == nullptr;
}

/// Whether a running model can follow the part by its name (or example) alone.
inline bool runs_in_a_model(const PolicyEntry& entry) {
  return (entry.name == "expr" || !asks_for_more(entry)) && !entry.traits.needs_future &&
         !entry.traits.reads_sequence && !entry.traits.reads_structure;
}

}  // namespace kvloupe::test

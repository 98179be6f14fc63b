#pragma once
// The sets that a replay keeps, as a file that engines write and read, too: docs/sets.md. The
// policy external("FILE") reads both forms (policy/kit/kept_sets.h).

#include <functional>
#include <string>
#include <string_view>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// The steps whose sets a file holds.
enum class KeptSteps {
  all,
  prompt_end,  // only the one that ends the prompt: of an engine that compresses once
};

/// The steps of a replay of a trace with so many prompt tokens, ascending. Throws UsageError where
/// no step ends with the prompt.
std::vector<int> kept_steps(const Replay& replay, KeptSteps which, int prompt_length);

/// Writes {kvloupe_sets, trace, policy, budget, block, once (the step, where it is only one),
/// heads: [{layer, head, steps: [{step, tokens (seen), retained}]}]} in pieces; head is "all" in a
/// layer of several heads that keep the same tokens at all of these steps. Throws UsageError for a
/// policy that merges: a set does not hold the new value of an entry.
void write_kept_sets_json(const Replay& replay, const std::string& trace,
                          const std::vector<int>& steps, bool once,
                          const std::function<void(std::string_view)>& write);

/// The same as safetensors: steps, tokens I64 [S]; once I64 [1]; layers.L.heads.H I32 [all steps
/// together] (or layers.L.all) and layers.L.heads.H.ends I64 [S], where each step's part ends.
void write_kept_sets_tensors(const Replay& replay, const std::string& trace,
                             const std::vector<int>& steps, bool once,
                             const std::function<void(std::string_view)>& write);

}  // namespace kvloupe

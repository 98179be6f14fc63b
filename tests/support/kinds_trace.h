#pragma once
// A made-up trace whose layers differ (format version 2): one without a cache, one as `/model`
// says, a latent one, one of other heads and widths with an output gate, and one that reads another
// layer's cache.

#include <filesystem>
#include <vector>

#include "analysis/trace/layer_attention.h"
#include "tests/support/synthetic_trace.h"

namespace kvloupe::test {

inline constexpr int kKindsPrompt = 64, kKindsGenerated = 4;
inline constexpr int kKindsTokens = kKindsPrompt + kKindsGenerated;

/// One layer of the trace; `made`: its states, of one layer.
struct MadeLayer {
  LayerAttributes attributes;
  SyntheticStates made;
};

/// 0: Mamba; 1: attention as in /model; 2: latent; 3: other heads and widths, with a gate; 4: reads
/// the cache of 1.
std::vector<MadeLayer> made_layers();

void write_kinds_trace(const std::filesystem::path& target, const std::vector<MadeLayer>& layers);

}  // namespace kvloupe::test

#pragma once
// How command lines name Compression.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

inline std::map<std::string, Compression> compression_words() {
  std::map<std::string, Compression> words;
  for (const Compression one : {Compression::regular, Compression::context_only}) {
    words[compression_name(one)] = one;
  }
  return words;
}

inline constexpr const char* kCompressionHelp =
    "Whether the policy sees the question. regular: it evicts after every block; context-only: it "
    "stops before the segment @@question, or at the prompt's end if there is none";

/// The share of the seen tokens that a layer still holds (KVMerger, figure 3b).
struct LayerCompression {
  int layer = 0;
  double mean = 0.0;               // over its heads
  double least = 0.0, most = 0.0;  // of its heads
};

/// Entries after the step ÷ tokens seen so far, without tokens that no later query sees, for each
/// layer of the replay, in its order. 1 if no token is left (a window of one token). Throws
/// std::out_of_range for a step that the replay does not have.
std::vector<LayerCompression> layer_compression(const Replay& replay, int step);

/// Whether a policy acts once on the prompt (or, if it stops at the question, on the context) in a
/// replay with this block size, after all of it was read with the full cache. Throws what
/// replay_blocks() does.
bool compresses_at_once(const Trace& trace, int block, std::optional<Compression> compression);

/// The share of the tokens visible to later queries that the heads still hold after the replay's
/// last step, in words: "31.2 % of the entries". It replaces the budget of a policy whose budget is
/// an outcome.
std::string reached_share(const Replay& replay);

}  // namespace kvloupe

#include "analysis/replay/replay_notes.h"

#include <utility>

#include "analysis/policy/kit/policy.h"
#include "analysis/trace/layer_kinds_text.h"

namespace kvloupe {

ModelInfo noted_model(const Trace& trace) {
  ModelInfo model = trace.model();
  const Reach reach = trace.same_reach() ? trace.reach(trace.storing_layers().front()) : Reach();
  model.sliding_window = reach.window;
  model.chunk_size = reach.chunk;
  model.chunked_tokens = reach.tokens;
  return model;
}

std::vector<std::string> replay_notes(const Trace& trace, const PolicySpec& policy, int budget) {
  std::vector<std::string> notes = policy_notes(policy, noted_model(trace), budget, trace.length());
  if (!trace.same_reach()) {
    notes.push_back(window_text(trace) + std::string(kLeavesTheWindow));
  }
  for (std::string& note : layer_kinds_notes(trace)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace kvloupe

#include "analysis/replay/replay_notes.h"

#include <utility>

#include "analysis/policy/kit/policy.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/window_text.h"

namespace kvloupe {

ModelInfo noted_model(const Trace& trace) {
  ModelInfo model = trace.model();
  model.sliding_window = trace.same_window() ? trace.window(trace.storing_layers().front()) : 0;
  return model;
}

std::vector<std::string> replay_notes(const Trace& trace, const PolicySpec& policy, int budget) {
  std::vector<std::string> notes = policy_notes(policy, noted_model(trace), budget, trace.length());
  if (!trace.same_window()) {
    notes.push_back("window of " + window_text(trace) + std::string(kLeavesTheWindow));
  }
  for (std::string& note : layer_kinds_notes(trace)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace kvloupe

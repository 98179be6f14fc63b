#pragma once

#include <string>
#include <vector>

#include "analysis/policy/kit/spec.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// The model as notes and limits of a policy speak of it: with the sliding window that all layers
/// have; without one where layers differ.
ModelInfo noted_model(const Trace& trace);

/// Notes for a person on a policy at this budget on this trace (policy_notes), and on the windows
/// of layers that differ.
std::vector<std::string> replay_notes(const Trace& trace, const PolicySpec& policy, int budget);

}  // namespace kvloupe

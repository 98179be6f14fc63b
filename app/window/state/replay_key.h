#pragma once

#include "app/figure/replay_service.h"

namespace kvloupe::window {

/// What a replay of the window was computed from; ReplayKey() is none.
using figure::ReplayKey;

/// Whether two keys are of the same trace and head (or of all its layers); policy, budget and block
/// may differ.
inline bool have_same_subject(const ReplayKey& a, const ReplayKey& b) {
  return a.trace == b.trace && a.layers == b.layers && a.scores_layer == b.scores_layer &&
         a.scores_head == b.scores_head;
}

}  // namespace kvloupe::window

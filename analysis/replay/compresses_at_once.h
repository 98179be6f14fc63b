#pragma once

#include <optional>

#include "analysis/trace/trace.h"

namespace kvloupe {

/// Whether a policy acts once on the prompt (or, if it stops at the question, on the context) in a
/// replay with this block size, after all of it was read with the full cache. Throws what
/// replay_blocks() does.
bool compresses_at_once(const Trace& trace, int block, std::optional<Compression> compression);

}  // namespace kvloupe

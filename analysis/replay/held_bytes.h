#pragma once

#include <optional>
#include <string>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// Bytes of all layers' caches after a replay's last step, in 16 bits a number.
struct HeldBytes {
  double held = 0.0;    // of the entries that stay
  double full = 0.0;    // of what a cache without a policy would hold then
  double states = 0.0;  // of a fixed size, beside both (CacheBytes)
};

/// Nothing where not all layers with a cache were replayed.
std::optional<HeldBytes> held_bytes(const Trace& trace, const Replay& replay);

/// "1.23 of 4.56 MB in 16 bits, and 0.512 MB of fixed states".
std::string held_bytes_text(const HeldBytes& bytes);

}  // namespace kvloupe

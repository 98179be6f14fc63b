#pragma once

#include <optional>
#include <string>

#include "analysis/math/quantisation.h"
#include "analysis/replay/record/records.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

/// The entries that a head's cache holds in few bits after the replay's last step. They follow from
/// the steps at which tokens left: the function repeats HeadCache::quantise() and keep() without
/// any states.
StoredEntries stored_entries(const Replay& replay, const HeadReplay& head,
                             const Quantisation& quantisation);

/// Bytes of all layers' caches after a replay's last step, in 16 bits a number or in those of quant
/// with its scales and zero points.
struct HeldBytes {
  double held = 0.0;        // of the entries that stay
  double full = 0.0;        // of what a cache without a policy would hold then, in 16 bits
  double states = 0.0;      // of a fixed size, beside both (CacheBytes)
  bool fewer_bits = false;  // whether the policy quantises
};

/// The bytes of one head's cache after the last step, counted as HeldBytes::held.
double head_bytes(const Trace& trace, const Replay& replay, const HeadReplay& head);

/// Nothing where not all layers with a cache were replayed.
std::optional<HeldBytes> held_bytes(const Trace& trace, const Replay& replay);

/// "1.23 of 4.56 MB in 16 bits, and 0.512 MB of fixed states"; with quant "1.23 of 4.56 MB in 16
/// bits, part of it in fewer".
std::string held_bytes_text(const HeldBytes& bytes);

}  // namespace kvloupe

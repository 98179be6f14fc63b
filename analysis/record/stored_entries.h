#pragma once

#include "analysis/metric/quantisation.h"
#include "analysis/record/records.h"

namespace kvloupe {

/// The entries that a head's cache holds in few bits after the replay's last step. They follow from
/// the steps at which tokens left: the function repeats HeadCache::quantise() and keep() without
/// any states.
StoredEntries stored_entries(const Replay& replay, const HeadReplay& head,
                             const Quantisation& quantisation);

}  // namespace kvloupe

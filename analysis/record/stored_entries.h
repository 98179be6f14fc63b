#pragma once

#include "analysis/metric/quantisation.h"
#include "analysis/record/records.h"

namespace kvloupe {

/// What a head's cache holds in few bits after the replay's last step, from when its tokens left:
/// HeadCache::quantise() and keep() told once more without any states.
StoredEntries stored_entries(const Replay& replay, const HeadReplay& head,
                             const Quantisation& quantisation);

}  // namespace kvloupe

#pragma once

#include "analysis/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe::figure {

/// Sink strength of token 0 in a head: the mean of sink_strength() over its query heads. It takes
/// all attention of the head, but hangs on the trace alone: while a budget is dragged it is computed
/// once. Safe from any thread.
double head_sink(const Trace& trace, int layer, int head, Progress& progress);

}  // namespace kvloupe::figure

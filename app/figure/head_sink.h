#pragma once

#include "analysis/base/core/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe::figure {

struct HeadSink {
  double strength = 0.0;
  bool estimated = false;  // from 512 evenly spaced queries
};
/// Sink strength of token 0 in a head: the mean of sink_strength() over its query heads. It depends
/// only on the trace, so it is computed once while a budget is dragged. In a long trace without
/// log-sum-exps, where it would need all attention of the head, it is an estimate. Safe from any
/// thread.
HeadSink head_sink(const Trace& trace, int layer, int head, Progress& progress);

}  // namespace kvloupe::figure

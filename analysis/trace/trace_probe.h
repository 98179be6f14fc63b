#pragma once

#include <optional>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/probe_info.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class TraceDatasets;

/// The probe of an open file; nothing without one. Ids lie within the vocabulary, passes follow one
/// another over the probe's tokens, and their parts of the context up to its end; the states of
/// every layer have the right shape; `layers`: what holds in each. Throws hdf5::Failure; called
/// under hdf5::Lock.
std::optional<ProbeInfo> find_probe(const TraceDatasets& datasets,
                                    const std::vector<ModelInfo>& layers, const RunInfo& run);

/// The second reading of the context that a trace may hold. All methods may be called from any
/// thread.
///
/// States with NaN or infinity throw
/// WorkError naming layer, head and token; a layer or head out of range, and states of a trace
/// without a probe, throw UsageError.
class TraceProbe {
 public:
  /// The trace must outlive it.
  explicit TraceProbe(const Trace& trace) : trace_(trace) {}

  /// Nothing: the trace has none.
  const std::optional<ProbeInfo>& info() const { return trace_.probe(); }
  Matrix query(int layer, int query_head) const;  // [P,d], after RoPE
  Matrix key(int layer, int head) const;          // [P,d], after RoPE
  /// ‖h‖₂ of the input of the layer's attention, after its norm: [P].
  std::vector<float> input_norm(int layer) const;

 private:
  Matrix states(const char* name, int layer, int head, int heads) const;
  /// Throws UsageError for a layer there is not, or where there is no probe.
  void check(int layer) const;

  const Trace& trace_;
};

}  // namespace kvloupe

#pragma once

#include "analysis/policy/kit/spec.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// The entries per head that a budget means for a policy on a trace. In bytes: as many in every
/// head as fit, over all layers that hold a cache, with the bits and the scales that the policy's
/// quant says. Throws UsageError as Budget::resolve() and resolve_bytes() do.
int budget_entries(const Budget& budget, const Trace& trace, const PolicySpec& policy);

}  // namespace kvloupe

#pragma once

#include <optional>

#include "analysis/trace/trace.h"

namespace kvloupe::test {

/// The attention matrix [T,T] of one query head as the file has it (float16 softmax rows, for other
/// programs: kvloupe never reads it); nothing where the trace has none.
std::optional<Matrix> stored_attention(const Trace& trace, int layer, int query_head);

}  // namespace kvloupe::test

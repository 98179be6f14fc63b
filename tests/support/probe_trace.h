#pragma once

#include <filesystem>
#include <vector>

#include "analysis/trace/probe_info.h"
#include "tests/support/synthetic_trace.h"

namespace kvloupe::test {

/// A synthetic trace with a second reading of the tokens before the question. The first options
/// give the states, W_O, the layers' attributes and the question.
struct ProbeTraceOptions {
  SyntheticTraceOptions trace = {};
  int request = 3;  // tokens before what each pass reads again
  int part = 40;    // tokens of the context that a pass reads again
};

struct ProbeTraceStates {
  SyntheticStates trace;
  ProbeInfo probe;
  std::vector<std::vector<Matrix>> query;      // [L][Hq] of [P,d]
  std::vector<std::vector<Matrix>> key;        // [L][Hk] of [P,d]
  std::vector<std::vector<float>> input_norm;  // [L] of [P]
};

/// Writes it through TraceWriter; returns its states, rounded to float16 where it stores that.
ProbeTraceStates write_probe_trace(const std::filesystem::path& target,
                                   const ProbeTraceOptions& options = {});

}  // namespace kvloupe::test

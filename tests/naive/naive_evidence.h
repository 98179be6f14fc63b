#pragma once
// What became of an answer's evidence, pair by pair, in plain double loops.

#include <string>
#include <vector>

#include "analysis/trace/trace.h"

namespace kvloupe::naive {

struct NaiveEvidenceHead {
  double attention = 0.0, even = 0.0;
  double kept = 0.0, unseen = 0.0, misranked = 0.0, cut = 0.0;
};

struct NaiveEvidence {
  std::vector<NaiveEvidenceHead> heads;  // layer-major
  std::vector<double> layer_evicted;     // [L]
  double evicted = 0.0;
};

/// Of these tokens for these queries. The policy, and its counterpart with a uniform budget, run in
/// double precision.
NaiveEvidence evidence(const Trace& trace, const std::string& policy, const std::string& uniform,
                       int budget, const std::vector<Block>& blocks, const std::vector<int>& tokens,
                       const std::vector<int>& queries);

}  // namespace kvloupe::naive

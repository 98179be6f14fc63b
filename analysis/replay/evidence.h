#pragma once
// Why the evidence of an answer was lost: the measures of measure/lost_evidence.cpp.

#include <limits>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// The segment whose tokens an answer rests on.
inline constexpr const char* kEvidence = "needle";

/// One head. The four shares of the pairs of a query and a token add up to 1; NaN where no query
/// sees the evidence.
struct EvidenceHead {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double attention = kUnknown;  // of the answer's queries to the evidence, with the full cache
  double even = kUnknown;  // the same if each query gave all tokens that it sees equal attention
  double kept = kUnknown;
  double unseen = kUnknown;     // lost where attention < even
  double misranked = kUnknown;  // lost with a uniform budget as well
  double cut = kUnknown;        // kept with a uniform budget
  bool reads() const { return attention >= even; }
};

struct EvidenceReplay {
  std::vector<int> tokens;          // the evidence, ascending
  std::vector<int> queries;         // tokens whose queries write the answer, after the evidence
  std::vector<EvidenceHead> heads;  // in the order of the replay's
  /// [L] the share of the pairs that no head of the layer holds; NaN for a layer that was not
  /// replayed whole. And that no head of any layer holds, if all layers were replayed whole.
  std::vector<double> layer_evicted;
  double evicted = EvidenceHead::kUnknown;
};

/// The parts that these measures need and the trace lacks, with the remedy; empty if the trace has
/// all.
std::string missing_evidence(const Trace& trace);

/// `policy` with a uniform budget: without the parts that give heads or layers their places.
PolicySpec without_allocation(PolicySpec policy);

/// Computes it; a policy with an allocation is replayed once more without. Without evidence, all is
/// NaN. Throws Cancelled, and what replay() and token_reads() throw.
EvidenceReplay evidence_of(const Trace& trace, const Replay& replay, const AskOptions& options,
                           Progress& progress);

/// Sets the heads' values of these measures.
void set_evidence(const EvidenceReplay& evidence, Replay& replay);

}  // namespace kvloupe

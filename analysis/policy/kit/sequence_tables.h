#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/probe_tables.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class SharedPrefix;  // shared_prefix.h
class WholePass;     // whole_pass.h

/// A number for each head of the layers with a cache, or one for each of these layers: those of one
/// layer after the other (ModelInfo::cache_heads_before, caches_before).
using HeadTable = std::vector<double>;

/// Facts about a whole sequence that a policy may know before its first step: tables over all
/// layers, each computed from the states of the full cache when first asked for. Thread-safe.
class SequenceTables {
 public:
  /// `end`: tokens after the first `end` are ignored. `progress` (or null) cancels. `shared` (or
  /// null): what other replays of the trace have computed. All are borrowed.
  SequenceTables(const Trace& trace, int end, Progress* progress, SharedPrefix* shared = nullptr);

  /// For a running model that reads its context twice: only its probe, borrowed.
  SequenceTables(const ProbeSource& probe, Progress* progress);
  ~SequenceTables();

  /// Whether the sequence is known; a running model's is not.
  bool has_trace() const { return trace_ != nullptr; }
  const Trace& trace() const { return *trace_; }
  int end() const { return end_; }
  SharedPrefix* shared() const { return shared_; }
  /// The table of that name, which says all that it depends on beside the sequence; made by the
  /// first who asks.
  const HeadTable& once(const std::string& name,
                        const std::function<HeadTable(const SequenceTables&)>& make) const;
  /// A number for each layer with a cache, made one by one.
  const HeadTable& of_layers(const std::string& name,
                             const std::function<double(int layer)>& number) const;
  /// The tables of the trace's probe.
  const ProbeTables& probe() const { return probe_; }
  /// Numbers of all layers of the trace, for the tokens that a step has seen.
  WholePass& pass() const { return *pass_; }
  /// Throws Cancelled if the owner asked to stop.
  void check() const;

 private:
  const Trace* trace_;
  int end_;
  Progress* progress_;
  SharedPrefix* shared_ = nullptr;
  std::unique_ptr<ProbeSource> probe_source_;  // of the trace
  ProbeTables probe_;
  std::unique_ptr<WholePass> pass_;  // of the trace; null without one
  mutable std::mutex mutex_;
  mutable std::map<std::string, HeadTable> tables_;
};

/// One past the last token that a replay's policy may know: the tokens that it acts on, without
/// generated ones. `acts_until`: of the replay.
int known_end(const Trace& trace, int acts_until);

/// The tables that a part asks for: those of the trace that its parameter `statistics` names, read
/// once as long as the file stays as it is, or those of the sequence that is replayed. Throws
/// UsageError where there is neither, FileError where the file is not a trace of this model.
std::shared_ptr<const SequenceTables> tables_of(const SpecPart& part, const LayerContext& context);

/// The parameter `statistics`.
struct ParameterInfo;
ParameterInfo statistics_parameter();

}  // namespace kvloupe

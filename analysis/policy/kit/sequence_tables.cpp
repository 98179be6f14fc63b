#include "analysis/policy/kit/sequence_tables.h"

#include <sys/stat.h>

#include <algorithm>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/whole_pass.h"

namespace kvloupe {

SequenceTables::SequenceTables(const Trace& trace, int end, Progress* progress,
                               SharedPrefix* shared)
    : trace_(&trace),
      end_(end),
      progress_(progress),
      shared_(shared),
      probe_source_(probe_of(trace)),
      probe_(*probe_source_, progress),
      pass_(whole_pass_of(trace)) {}

SequenceTables::SequenceTables(const ProbeSource& probe, Progress* progress)
    : trace_(nullptr), end_(0), progress_(progress), probe_(probe, progress) {}

SequenceTables::~SequenceTables() = default;

void SequenceTables::check() const {
  if (progress_ != nullptr) progress_->check();
}

const HeadTable& SequenceTables::once(
    const std::string& name, const std::function<HeadTable(const SequenceTables&)>& make) const {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(name);
  if (found != tables_.end()) return found->second;
  return tables_.emplace(name, make(*this)).first->second;
}

const HeadTable& SequenceTables::of_layers(const std::string& name,
                                           const std::function<double(int layer)>& number) const {
  return once(name, [&](const SequenceTables&) {
    HeadTable table;
    for (const int layer : trace_->storing_layers()) {
      check();
      table.push_back(number(layer));
    }
    return table;
  });
}

int known_end(const Trace& trace, int acts_until) {
  return std::min(acts_until, trace.run().prompt_length);
}

namespace {
/// A trace that a spec names, with its tables.
struct NamedTrace {
  explicit NamedTrace(const std::string& path)
      : trace(path), tables(trace, trace.run().prompt_length, nullptr) {}
  Trace trace;
  SequenceTables tables;
};

std::shared_ptr<const SequenceTables> named_tables(const std::string& path) {
  // Every layer of a replay asks for the same file: the last one stays open.
  static std::mutex mutex;
  static std::string held_identity;
  static std::shared_ptr<NamedTrace> held;
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  const std::string identity = path + (there ? file_identity(status) : "");
  const std::lock_guard lock(mutex);
  if (!held || identity != held_identity) {
    held = std::make_shared<NamedTrace>(path);
    held_identity = identity;
  }
  return {held, &held->tables};
}
}  // namespace

std::shared_ptr<const SequenceTables> tables_of(const SpecPart& part, const LayerContext& context) {
  const std::string& path = part.word("statistics");
  if (path.empty()) {
    if (context.sequence == nullptr || !context.sequence->has_trace()) {
      throw UsageError("policy: " + part.name +
                       " needs all layers of the sequence, which a running model does not know "
                       "beforehand; name a trace of the same model: " +
                       part.name + "(statistics=\"trace.h5\")");
    }
    return {std::shared_ptr<void>(), context.sequence};
  }
  std::shared_ptr<const SequenceTables> tables = named_tables(path);
  const ModelInfo& model = context.model;
  const bool layers = tables->trace().model().num_layers == model.num_layers;
  const ModelInfo& other =
      layers ? tables->trace().layer_model(context.layer) : tables->trace().model();
  if (!layers || other.cache_heads != model.cache_heads || other.num_heads != model.num_heads ||
      other.num_kv_heads != model.num_kv_heads || other.head_dim != model.head_dim) {
    throw FileError(path,
                    "has other heads or layers than the model here; statistics are those of "
                    "one model");
  }
  return tables;
}

ParameterInfo statistics_parameter() {
  return file_parameter("statistics",
                        "a trace of the same model, in quotes, whose prompt gives the numbers; "
                        "without it, the replayed prompt gives them");
}

}  // namespace kvloupe

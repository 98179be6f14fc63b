#include "analysis/policy/kit/probe_tables.h"

#include <algorithm>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/trace/trace_probe.h"

namespace kvloupe {

namespace {
std::string how_to_get(const std::string& part, const std::string& file) {
  return "policy: " + part + " needs a probe, a second reading of the context, which " +
         (file.empty() ? "is not there" : file + " does not have") +
         "; capture it again with kvloupe-capture run --probe repeat";
}

/// Gives entries that are marked as above all others a score above all others.
void put_above_all(std::vector<std::vector<std::vector<float>>>& layers) {
  float largest = 0.0F;
  for (const auto& layer : layers) {
    for (const std::vector<float>& head : layer) {
      for (const float score : head) {
        if (score != ProbeTables::kAboveAll) largest = std::max(largest, score);
      }
    }
  }
  for (auto& layer : layers) {
    for (std::vector<float>& head : layer) {
      std::replace(head.begin(), head.end(), ProbeTables::kAboveAll, largest + 1.0F);
    }
  }
}

class ProbeOfTrace : public ProbeSource {
 public:
  explicit ProbeOfTrace(const Trace& trace) : trace_(trace) {}
  const ModelInfo& model() const override { return trace_.model(); }
  const std::optional<ProbeInfo>& info() const override { return probe().info(); }
  std::string name() const override { return trace_.path().string(); }

  LayerProbe layer(int layer, LayerProbeParts parts) const override {
    const int end = probe().info()->context_end;
    LayerProbe states;
    states.model = trace_.layer_model(layer);
    states.attention = trace_.attention(layer);
    for (int head = 0; head < states.model.num_kv_heads; ++head) {
      states.own_keys.push_back(probe().key(layer, head));
      states.keys.emplace_back(trace_.key(layer, head).topRows(end));
      if (parts.values) states.values.emplace_back(trace_.value(layer, head).topRows(end));
    }
    for (int query_head = 0; query_head < states.model.num_heads; ++query_head) {
      states.queries.push_back(probe().query(layer, query_head));
      if (!parts.norms) continue;
      std::vector<float> norms = trace_.value_out_norm(layer, query_head, Norm::l2);
      if (norms.empty()) {
        throw WorkError(name() + ": has no output weights of layer " + std::to_string(layer) +
                        ", which the norm of an entry's output needs; capture it again");
      }
      norms.resize(static_cast<std::size_t>(end));
      states.out_norms.push_back(std::move(norms));
    }
    if (parts.norms) states.input_norms = probe().input_norm(layer);
    return states;
  }

 private:
  /// Opened when first asked for: most replays need none.
  const TraceProbe& probe() const {
    std::call_once(opened_, [&] { probe_ = std::make_unique<TraceProbe>(trace_); });
    return *probe_;
  }

  const Trace& trace_;
  mutable std::once_flag opened_;
  mutable std::unique_ptr<TraceProbe> probe_;
};
}  // namespace

std::unique_ptr<ProbeSource> probe_of(const Trace& trace) {
  return std::make_unique<ProbeOfTrace>(trace);
}

std::shared_ptr<const KnownScores> ProbeTables::once(const SpecPart& part, LayerProbeParts parts,
                                                     const OfLayer& of_layer) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const KnownScores>& table = tables_[PolicySpec{{part}}.text()];
  if (table) return table;
  const std::optional<ProbeInfo>& info = source_.info();
  if (!info) throw UsageError(how_to_get(part.name, source_.name()));
  Progress none;
  Progress& progress = progress_ != nullptr ? *progress_ : none;
  std::vector<std::vector<std::vector<float>>> scores;
  std::vector<Reach> reaches;
  for (int layer = 0; layer < source_.model().num_layers; ++layer) {
    progress.check();
    if (source_.model().heads_in(layer) == 0) {  // no cache of its own
      scores.emplace_back();
      reaches.emplace_back();
      continue;
    }
    const LayerProbe states = source_.layer(layer, parts);
    scores.push_back(of_layer(*info, states, progress));
    reaches.push_back(states.model.reach());
  }
  put_above_all(scores);
  table = std::make_shared<const KnownScores>(std::move(scores), std::move(reaches));
  return table;
}

LayerProbe ProbeTables::states(const SpecPart& part, int layer) const {
  if (!source_.info()) throw UsageError(how_to_get(part.name, source_.name()));
  return source_.layer(layer, {});
}

void check_probe(const PolicySpec& spec, const Trace& trace) {
  for (const SpecPart& part : spec.parts) {
    if (find_policy(part.name) == nullptr || !traits_of(part).reads_probe) continue;
    if (TraceProbe(trace).info()) return;
    throw UsageError(how_to_get(part.name, trace.path().string()));
  }
}

const ProbeTables& probe_tables(const SpecPart& part, const LayerContext& context) {
  if (context.sequence != nullptr) return context.sequence->probe();
  throw UsageError(how_to_get(part.name, ""));
}

}  // namespace kvloupe

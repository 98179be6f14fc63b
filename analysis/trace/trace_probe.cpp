#include "analysis/trace/trace_probe.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

using hdf5::Dataset;
using hdf5::Handle;
using Kind = TraceDatasets::Kind;

namespace {
hsize_t rows_of(const TraceDatasets& datasets, const char* name) {
  const Dataset dataset = datasets.dataset(name);
  return dataset.shape.empty() ? 0 : dataset.shape[0];
}

/// Passes from the numbers [C,4]: first and end of the probe's tokens, and of the context.
std::vector<ProbePass> passes_of(const std::vector<std::int32_t>& bounds, int tokens,
                                 int context_end) {
  std::vector<ProbePass> passes;
  for (std::size_t i = 0; i < bounds.size(); i += 4) {
    const ProbePass pass{{bounds[i], bounds[i + 1]}, {bounds[i + 2], bounds[i + 3]}};
    const int at = passes.empty() ? 0 : passes.back().tokens.end;
    const int read = passes.empty() ? pass.context.first : passes.back().context.end;
    const bool follows = pass.tokens.first == at && pass.tokens.end > at &&
                         pass.tokens.end <= tokens && pass.context.first == read && read >= 0 &&
                         pass.context.end > read && pass.context.end <= context_end;
    if (!follows || pass.tokens.end - at < pass.context.end - read) {
      throw hdf5::Failure(fmt::format(
          "{}: pass {} has the tokens [{}, {}) for [{}, {}) of the context; passes follow one "
          "another and are at least as long as the part that they read again",
          layout::kProbePasses, i / 4, pass.tokens.first, pass.tokens.end, pass.context.first,
          pass.context.end));
    }
    passes.push_back(pass);
  }
  if (passes.empty() || passes.back().tokens.end != tokens ||
      passes.back().context.end != context_end) {
    throw hdf5::Failure(
        fmt::format("{} do not end with the {} tokens of the probe and the {} of "
                    "the context",
                    layout::kProbePasses, tokens, context_end));
  }
  return passes;
}

void check_states(const TraceDatasets& datasets, const std::vector<ModelInfo>& layers, int tokens) {
  const hsize_t count = hdf5::extent(tokens);
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const ModelInfo& model = layers[static_cast<std::size_t>(layer)];
    if (!model.attends()) continue;
    const hsize_t d = hdf5::extent(model.head_dim);
    const auto at = [&](const char* name) { return layout::layer_dataset(layer, name); };
    for (const char* name : {layout::kProbeQuery, layout::kProbeKey, layout::kProbeInputNorm}) {
      if (name == layout::kProbeKey && !model.stores()) continue;
      if (!hdf5::exists(datasets.file(), at(name))) {
        throw hdf5::Failure("has a probe, but no " + at(name));
      }
    }
    datasets.open(at(layout::kProbeQuery), Kind::real, {hdf5::extent(model.num_heads), count, d});
    if (model.stores()) {
      datasets.open(at(layout::kProbeKey), Kind::real,
                    {hdf5::extent(model.num_kv_heads), count, d});
    }
    datasets.open(at(layout::kProbeInputNorm), Kind::real, {count});
  }
}
}  // namespace

std::optional<ProbeInfo> find_probe(const TraceDatasets& datasets,
                                    const std::vector<ModelInfo>& layers, const RunInfo& run) {
  if (!hdf5::exists(datasets.file(), layout::kProbe)) return std::nullopt;
  const Handle group = hdf5::open_group(datasets.file(), layout::kProbe);
  ProbeInfo probe;
  probe.kind = hdf5::read_text(group, layout::kProbeKind).value_or("");
  const std::int64_t end = hdf5::read_integer(group, layout::kProbeContextEnd).value_or(0);
  if (end < 1 || end > run.prompt_length) {
    throw hdf5::Failure(fmt::format("attribute '{}' in {} is {}, but the prompt has {} tokens",
                                    layout::kProbeContextEnd, layout::kProbe, end,
                                    run.prompt_length));
  }
  probe.context_end = static_cast<int>(end);
  for (const char* name : {layout::kProbeIds, layout::kProbePasses}) {
    if (!hdf5::exists(datasets.file(), name)) throw hdf5::Failure(fmt::format("has no {}", name));
  }
  // As many as the states of a layer could have: their shapes are checked against this number.
  const hsize_t count = rows_of(datasets, layout::kProbeIds);
  if (count < 1 || count > hsize_t{1} << 30U) {
    throw hdf5::Failure(fmt::format("{} has {} tokens", layout::kProbeIds, count));
  }
  probe.ids =
      datasets.read_all<std::int32_t>(layout::kProbeIds, Kind::integer, {count}, H5T_NATIVE_INT32);
  for (std::size_t i = 0; i < probe.ids.size(); ++i) {
    if (probe.ids[i] >= 0 && probe.ids[i] < layers.front().vocab_size) continue;
    throw hdf5::Failure(fmt::format("{}: token {} is {}, outside the vocabulary of {}",
                                    layout::kProbeIds, i, probe.ids[i], layers.front().vocab_size));
  }
  probe.passes = passes_of(datasets.read_all<std::int32_t>(
                               layout::kProbePasses, Kind::integer,
                               {rows_of(datasets, layout::kProbePasses), 4}, H5T_NATIVE_INT32),
                           probe.tokens(), probe.context_end);
  check_states(datasets, layers, probe.tokens());
  return probe;
}

void TraceProbe::check(int layer) const {
  if (!info()) throw UsageError(trace_.path().string() + ": has no probe");
  if (layer < 0 || layer >= trace_.model().num_layers) {
    throw UsageError(fmt::format("layer {}: {} has layers 0 to {}", layer, trace_.path().string(),
                                 trace_.model().num_layers - 1));
  }
}

Matrix TraceProbe::states(const char* name, int layer, int head, int heads) const {
  check(layer);
  if (head < 0 || head >= heads) {
    throw UsageError(fmt::format("head {}: {} of {} has heads 0 to {}", head, name,
                                 trace_.path().string(), heads - 1));
  }
  Matrix states = trace_.file().read_matrix(layout::layer_dataset(layer, name),
                                            {hdf5::extent(heads), hdf5::extent(info()->tokens()),
                                             hdf5::extent(trace_.layer_model(layer).head_dim)},
                                            head);
  for (Eigen::Index row = 0; row < states.rows(); ++row) {
    if (all_finite(states.data() + row * states.cols(), static_cast<std::size_t>(states.cols()))) {
      continue;
    }
    throw WorkError(fmt::format("{}: {} of layer {}, head {}, token {} is not a finite number",
                                trace_.path().string(), name, layer, head, row));
  }
  return states;
}

Matrix TraceProbe::query(int layer, int query_head) const {
  return states(layout::kProbeQuery, layer, query_head, trace_.layer_model(layer).num_heads);
}
Matrix TraceProbe::key(int layer, int head) const {
  const ModelInfo& own = trace_.layer_model(layer);
  return states(layout::kProbeKey, own.shares_with >= 0 ? own.shares_with : layer, head,
                own.num_kv_heads);
}

std::vector<float> TraceProbe::input_norm(int layer) const {
  check(layer);
  const std::string name = layout::layer_dataset(layer, layout::kProbeInputNorm);
  std::vector<float> norms = trace_.file().guarded([&] {
    return trace_.file().read_all<float>(name, Kind::real, {hdf5::extent(info()->tokens())},
                                         H5T_NATIVE_FLOAT);
  });
  for (std::size_t token = 0; token < norms.size(); ++token) {
    if (std::isfinite(norms[token]) && norms[token] >= 0.0F) continue;
    throw WorkError(
        fmt::format("{}: {} of layer {}, token {} is not a norm: a finite number of at "
                    "least 0",
                    trace_.path().string(), layout::kProbeInputNorm, layer, token));
  }
  return norms;
}

}  // namespace kvloupe

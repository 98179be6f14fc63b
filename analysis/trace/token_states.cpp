#include "analysis/trace/token_states.h"

#include <fmt/format.h>

#include "analysis/error.h"
#include "analysis/numeric/float_rows.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

struct TokenStates::Impl {
  explicit Impl(const Trace& of) : trace(of), datasets(of.path()) {
    if (datasets.identity() == trace.identity()) return;
    throw FileError(trace.path().string(), "has changed since it was opened; open it again");
  }

  Matrix read(const char* name, int heads, int layer, const Block& tokens) const {
    const std::string file = trace.path().string();
    if (layer < 0 || layer >= trace.model().num_layers) {
      throw UsageError(fmt::format("layer {}: {} has layers 0 to {}", layer, file,
                                   trace.model().num_layers - 1));
    }
    if (tokens.first < 0 || tokens.size() < 1 || tokens.end > trace.length()) {
      throw UsageError(fmt::format("tokens {} to {}: {} has tokens 0 to {}", tokens.first,
                                   tokens.end - 1, file, trace.length() - 1));
    }
    const auto count = static_cast<hsize_t>(heads), m = static_cast<hsize_t>(tokens.size());
    const auto d = static_cast<hsize_t>(trace.model().head_dim);
    Matrix states = datasets.read_part(layout::layer_dataset(layer, name),
                                       {count, static_cast<hsize_t>(trace.length()), d},
                                       {0, static_cast<hsize_t>(tokens.first), 0}, {count, m, d},
                                       Eigen::Index{heads} * tokens.size(), trace.model().head_dim);
    if (all_finite(states.data(), static_cast<std::size_t>(states.size()))) return states;
    for (Eigen::Index row = 0; row < states.rows(); ++row) {
      if (states.row(row).allFinite()) continue;
      throw WorkError(fmt::format("{}: {} of layer {}, head {}, token {} is not a finite number",
                                  file, name, layer, row / tokens.size(),
                                  tokens.first + row % tokens.size()));
    }
    return states;
  }

  const Trace& trace;
  TraceDatasets datasets;
};

TokenStates::TokenStates(const Trace& trace) : impl_(std::make_unique<Impl>(trace)) {}
TokenStates::~TokenStates() = default;

Matrix TokenStates::queries(int layer, const Block& tokens) const {
  return impl_->read("query", impl_->trace.model().num_heads, layer, tokens);
}
Matrix TokenStates::keys(int layer, const Block& tokens) const {
  return impl_->read("key", impl_->trace.model().num_kv_heads, layer, tokens);
}
Matrix TokenStates::values(int layer, const Block& tokens) const {
  return impl_->read("value", impl_->trace.model().num_kv_heads, layer, tokens);
}

}  // namespace kvloupe

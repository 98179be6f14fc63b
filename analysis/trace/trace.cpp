#include "analysis/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/trace_attributes.h"
#include "analysis/trace/trace_check.h"
#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_final_norm.h"
#include "analysis/trace/trace_layout.h"
#include "analysis/trace/trace_probe.h"
#include "analysis/trace/trace_tables.h"

namespace kvloupe {

namespace fs = std::filesystem;
using hdf5::Dataset;
using Kind = TraceDatasets::Kind;
using Shape = TraceDatasets::Shape;

struct Trace::Impl {
  /// Datasets of a layer that were found and whose shape was checked.
  struct Layer {
    bool logsumexp = false, output_weight = false, evicted_at = false;
    bool merges = false, gate = false;
    bool norm_l1 = false, norm_l2 = false;
    bool residual_change = false;
    LayerAttributes attributes;
    ModelInfo model;  // what holds in this layer
  };

  explicit Impl(const fs::path& path) : datasets(path) {}

  TraceDatasets datasets;
  TraceAttributes attributes;
  TokenTable tokens;
  std::vector<Block> blocks;
  std::vector<Layer> layers;
  std::vector<int> storing;  // the layers with a cache of their own
  int top_k = 0;             // 0: no predictions
  bool loss = false, lm_head = false, hidden = false;
  hsize_t vocabulary_bytes = 0;  // 0: no vocabulary
  std::optional<ProbeInfo> probe;
  std::vector<std::int32_t> head_row_ids;
  bool final_norm = false;

  const ModelInfo& model() const { return attributes.model; }
  const RunInfo& run() const { return attributes.run; }
  int length() const { return attributes.run.tokens(); }

  void check_layers();
  void check_states(int layer, Layer& found_here) const;
  void check_predictions();

  /// Which states of a layer: the dataset, its heads and its width.
  struct States {
    const char* name;
    int layer;
    int heads;
    int width;
  };
  States queries_of(int layer) const {
    const ModelInfo& own = attending(layer);
    return {"query", layer, own.num_heads, own.head_dim};
  }
  /// Those of the layer whose cache this one reads: mostly its own.
  States keys_of(int layer) const {
    const ModelInfo& own = attending(layer);
    return {"key", own.shares_with >= 0 ? own.shares_with : layer, own.num_kv_heads, own.head_dim};
  }
  States values_of(int layer) const {
    States states = keys_of(layer);
    if (attending(layer).value_is_key_prefix) return states;
    states.name = "value";
    states.width = attending(layer).value_width();
    return states;
  }

  /// States [H,T,d] of one head, every number finite.
  Matrix read_states(const States& of, int head) const {
    Matrix states = datasets.read_matrix(
        layout::layer_dataset(of.layer, of.name),
        {hdf5::extent(of.heads), hdf5::extent(length()), hdf5::extent(of.width)}, head);
    check_finite(states, of.layer, of.name, head, "token");
    return states;
  }

  /// States [H·m,d] of a block's tokens, all heads one after the other, every number finite.
  Matrix read_tokens(const States& of, const Block& tokens) const;

  void check_finite(const Matrix& m, int layer, const char* name, int head, const char* row) const {
    if (all_finite(m.data(), static_cast<std::size_t>(m.size()))) return;
    for (Eigen::Index i = 0; i < m.rows(); ++i) {
      if (!m.row(i).allFinite()) not_finite(layer, name, head, row, i);
    }
  }
  [[noreturn]] void not_finite(int layer, const char* name, int head, const char* row,
                               Eigen::Index index) const {
    throw WorkError(fmt::format("{}: {} of layer {}, head {}, {} {} is not a finite number",
                                datasets.path().string(), name, layer, head, row, index));
  }

  const Layer& layer_at(int layer) const {
    if (layer < 0 || layer >= model().num_layers) {
      throw UsageError(fmt::format("layer {}: {} has layers 0 to {}", layer,
                                   datasets.path().string(), model().num_layers - 1));
    }
    return layers[static_cast<std::size_t>(layer)];
  }
  /// The model as a layer with queries and keys has it. Throws UsageError for another layer.
  const ModelInfo& attending(int layer) const {
    const ModelInfo& own = layer_at(layer).model;
    if (own.attends()) return own;
    throw UsageError(
        fmt::format("layer {}: has no cache in {}{}; take one of the layers that attend", layer,
                    datasets.path().string(), own.mixer.empty() ? "" : " (" + own.mixer + ")"));
  }
  void check_head(int head, int heads, const char* what) const {
    if (head < 0 || head >= heads) {
      throw UsageError(fmt::format("{} {}: {} has {}s 0 to {}", what, head,
                                   datasets.path().string(), what, heads - 1));
    }
  }
};

void Trace::Impl::check_layers() {
  std::vector<LayerAttributes> said;
  for (int layer = 0; layer < model().num_layers; ++layer) {
    said.push_back(read_layer_attributes(datasets.file(), layer, attributes.version));
  }
  std::vector<ModelInfo> models = layer_models(model(), said);
  attributes.model.cache_heads = models.front().cache_heads;
  for (int layer = 0; layer < model().num_layers; ++layer) {
    Layer found_here;
    found_here.attributes = std::move(said[static_cast<std::size_t>(layer)]);
    found_here.model = std::move(models[static_cast<std::size_t>(layer)]);
    // A window or a chunk that is as long as the trace hides nothing.
    ModelInfo& own = found_here.model;
    if (own.sliding_window >= length()) own.sliding_window = 0;
    if (own.chunk_size >= length()) own.chunk_size = 0;
    if (own.chunk_size > 0) own.chunked_tokens = length();
    if (found_here.model.attends()) check_states(layer, found_here);
    found_here.residual_change =
        datasets.found(layout::layer_dataset(layer, layout::kResidualChange), Kind::real,
                       {hdf5::extent(length())});
    if (found_here.model.stores()) storing.push_back(layer);
    layers.push_back(std::move(found_here));
  }
  if (storing.empty()) {
    throw hdf5::Failure("has no layer with a cache; there is nothing that a policy could evict");
  }
}

void Trace::Impl::check_states(int layer, Layer& found_here) const {
  const ModelInfo& own = found_here.model;
  const hsize_t query_heads = hdf5::extent(own.num_heads), heads = hdf5::extent(own.num_kv_heads);
  const hsize_t count = hdf5::extent(length()), d = hdf5::extent(own.head_dim),
                width = hdf5::extent(own.value_width());
  const auto at = [&](const char* name) { return layout::layer_dataset(layer, name); };
  const auto open = [&](const char* name, const Shape& shape) {
    if (!hdf5::exists(datasets.file(), at(name))) throw hdf5::Failure("has no " + at(name));
    datasets.open(at(name), Kind::real, shape);
  };
  open("query", {query_heads, count, d});
  if (own.stores()) {
    open("key", {heads, count, d});
    if (!own.value_is_key_prefix) open("value", {heads, count, width});
    found_here.evicted_at = datasets.found(at("evicted_at"), Kind::integer, {heads, count});
    found_here.merges = hdf5::exists(datasets.file(), at("merges"));
    if (found_here.merges) datasets.open_merges(layer);
  }
  found_here.logsumexp =
      datasets.found(at("attention_logsumexp"), Kind::real, {query_heads, count});
  found_here.output_weight = datasets.found(at("output_weight"), Kind::real,
                                            {query_heads, width, hdf5::extent(own.hidden_size)});
  found_here.norm_l1 = datasets.found(at("value_out_norm_l1"), Kind::real, {query_heads, count});
  found_here.norm_l2 = datasets.found(at("value_out_norm_l2"), Kind::real, {query_heads, count});
  found_here.gate = attributes.version > 1 &&
                    datasets.found(at(layout::kGate), Kind::real, {count, query_heads * width});
  if (datasets.found(at("sink_logits"), Kind::real, {query_heads})) {
    std::vector<float>& sinks = found_here.attributes.sink_logits;
    sinks =
        datasets.read_all<float>(at("sink_logits"), Kind::real, {query_heads}, H5T_NATIVE_FLOAT);
    if (!all_finite(sinks.data(), sinks.size())) {
      throw hdf5::Failure(at("sink_logits") + " has a number that is not finite");
    }
  }
}

void Trace::Impl::check_predictions() {
  const hsize_t count = hdf5::extent(length());
  lm_head = datasets.found(layout::kHead, Kind::real,
                           {hdf5::extent(model().vocab_size), hdf5::extent(model().hidden_size)});
  if (hdf5::exists(datasets.file(), layout::kVocabularyText)) {
    const Shape shape = datasets.dataset(layout::kVocabularyText).shape;
    vocabulary_bytes = shape.size() == 1 ? shape[0] : 0;
    datasets.open(layout::kVocabularyText, Kind::integer, {vocabulary_bytes});
    datasets.open(layout::kVocabularyEnds, Kind::integer, {hdf5::extent(model().vocab_size)});
  }
  loss = datasets.found("/predictions/loss", Kind::real, {count});
  hidden =
      datasets.found("/predictions/hidden", Kind::real, {count, hdf5::extent(model().hidden_size)});
  if (!hdf5::exists(datasets.file(), "/predictions/token_ids") ||
      !hdf5::exists(datasets.file(), "/predictions/logprob")) {
    return;
  }
  const Shape shape = datasets.dataset("/predictions/token_ids").shape;
  const hsize_t k = shape.size() == 2 ? shape[1] : 0;
  if (k < 1 || k > hdf5::extent(model().vocab_size)) {
    throw hdf5::Failure("/predictions/token_ids has the shape " + hdf5::shape_text(shape));
  }
  datasets.open("/predictions/token_ids", Kind::integer, {count, k});
  datasets.open("/predictions/logprob", Kind::real, {count, k});
  top_k = static_cast<int>(k);
}

Matrix Trace::Impl::read_tokens(const States& of, const Block& tokens) const {
  const std::string file = datasets.path().string();
  if (tokens.first < 0 || tokens.size() < 1 || tokens.end > length()) {
    const std::string wanted = tokens.size() == 1
                                   ? fmt::format("token {}", tokens.first)
                                   : fmt::format("tokens {} to {}", tokens.first, tokens.end - 1);
    throw UsageError(fmt::format("{}: {} has tokens 0 to {}", wanted, file, length() - 1));
  }
  const hsize_t m = hdf5::extent(tokens.size()), d = hdf5::extent(of.width);
  const hsize_t heads = hdf5::extent(of.heads);
  Matrix states =
      datasets.read_part(layout::layer_dataset(of.layer, of.name),
                         {heads, hdf5::extent(length()), d}, {0, hdf5::extent(tokens.first), 0},
                         {heads, m, d}, Eigen::Index{of.heads} * tokens.size(), of.width);
  if (all_finite(states.data(), static_cast<std::size_t>(states.size()))) return states;
  for (Eigen::Index row = 0; row < states.rows(); ++row) {
    if (!states.row(row).allFinite()) {
      not_finite(of.layer, of.name, static_cast<int>(row / tokens.size()), "token",
                 tokens.first + row % tokens.size());
    }
  }
  return states;
}

Trace::Trace(const fs::path& path) {
  check_trace(path);
  impl_ = std::make_unique<Impl>(path);
  const TraceDatasets& datasets = impl_->datasets;
  datasets.guarded([&] {
    impl_->attributes = read_trace_attributes(datasets.file());
    impl_->datasets.use_shared_weights(model());
    if (!hdf5::exists(datasets.file(), "/tokens/ids")) throw hdf5::Failure("has no /tokens/ids");
    impl_->tokens = read_token_table(datasets, model(), impl_->length());
    impl_->blocks = read_blocks(datasets, impl_->tokens, run());
    impl_->check_layers();
    impl_->check_predictions();
    std::vector<ModelInfo> models;
    for (const Impl::Layer& layer : impl_->layers) models.push_back(layer.model);
    impl_->probe = find_probe(datasets, models, run());
    impl_->final_norm = find_final_norm(datasets, model(), run());
    impl_->head_row_ids = find_head_rows(datasets, model(), impl_->tokens);
  });
}

Trace::~Trace() = default;

const fs::path& Trace::path() const { return impl_->datasets.path(); }
const std::string& Trace::identity() const { return impl_->datasets.identity(); }
const ModelInfo& Trace::model() const { return impl_->model(); }
const RunInfo& Trace::run() const { return impl_->run(); }
const TokenTable& Trace::tokens() const { return impl_->tokens; }
const std::vector<Block>& Trace::blocks() const { return impl_->blocks; }
const std::string& Trace::generator() const { return impl_->attributes.generator; }
const std::string& Trace::created() const { return impl_->attributes.created; }

int Trace::window(int layer) const { return layer_model(layer).sliding_window; }
Reach Trace::reach(int layer) const { return layer_model(layer).reach(); }
Reach Trace::narrowest_reach() const {
  Reach narrowest;
  for (const int layer : impl_->storing) {
    const Reach own = reach(layer);
    if (!own.all() && (narrowest.all() || own.span() < narrowest.span())) narrowest = own;
  }
  return narrowest;
}
bool Trace::same_reach() const {
  return std::all_of(impl_->storing.begin(), impl_->storing.end(),
                     [&](int layer) { return reach(layer) == reach(impl_->storing.front()); });
}
LayerAttention Trace::attention(int layer) const {
  const LayerAttributes& own = impl_->layer_at(layer).attributes;
  LayerAttention attention(own.attention_scale.value_or(run().attention_scale));
  attention.softcap = own.attention_softcap;
  attention.sink_logits = own.sink_logits;
  return attention;
}
const ModelInfo& Trace::layer_model(int layer) const { return impl_->layer_at(layer).model; }
const std::vector<int>& Trace::storing_layers() const { return impl_->storing; }
bool Trace::attends(int layer) const { return layer_model(layer).attends(); }
int Trace::all_heads() const {
  int all = 0;
  for (const Impl::Layer& layer : impl_->layers) all += layer.model.num_kv_heads;
  return all;
}
int Trace::most_heads() const {
  int most = 0;
  for (const Impl::Layer& layer : impl_->layers) most = std::max(most, layer.model.num_kv_heads);
  return most;
}
int Trace::most_query_heads() const {
  int most = 0;
  for (const Impl::Layer& layer : impl_->layers) most = std::max(most, layer.model.num_heads);
  return most;
}
const std::string& Trace::without_output_weight(int layer) const {
  return impl_->layer_at(layer).attributes.without_output_weight;
}

Matrix Trace::query(int layer, int query_head) const {
  const Impl::States states = impl_->queries_of(layer);
  impl_->check_head(query_head, states.heads, "query head");
  return impl_->read_states(states, query_head);
}
Matrix Trace::queries_of_token(int layer, int token) const {
  return queries(layer, {token, token + 1});
}
Matrix Trace::queries(int layer, const Block& tokens) const {
  return impl_->read_tokens(impl_->queries_of(layer), tokens);
}
Matrix Trace::keys(int layer, const Block& tokens) const {
  return impl_->read_tokens(impl_->keys_of(layer), tokens);
}
Matrix Trace::values(int layer, const Block& tokens) const {
  Matrix states = impl_->read_tokens(impl_->values_of(layer), tokens);
  if (!layer_model(layer).value_is_key_prefix) return states;
  return states.leftCols(layer_model(layer).value_width());
}
Matrix Trace::key(int layer, int head) const {
  const Impl::States states = impl_->keys_of(layer);
  impl_->check_head(head, states.heads, "head");
  return impl_->read_states(states, head);
}
Matrix Trace::value(int layer, int head) const {
  const Impl::States states = impl_->values_of(layer);
  impl_->check_head(head, states.heads, "head");
  Matrix values = impl_->read_states(states, head);
  if (!layer_model(layer).value_is_key_prefix) return values;
  return values.leftCols(layer_model(layer).value_width());
}
bool Trace::has_gate(int layer) const { return impl_->layer_at(layer).gate; }
Matrix Trace::gate(int layer) const {
  const ModelInfo& own = impl_->attending(layer);
  if (!has_gate(layer)) return {};
  const Eigen::Index width = Eigen::Index{own.num_heads} * own.value_width();
  const Shape shape{hdf5::extent(length()), static_cast<hsize_t>(width)};
  Matrix gate = impl_->datasets.read_part(layout::layer_dataset(layer, layout::kGate), shape,
                                          {0, 0}, shape, length(), width);
  for (Eigen::Index token = 0; token < gate.rows(); ++token) {
    for (Eigen::Index at = 0; at < gate.cols(); ++at) {
      if (std::isfinite(gate(token, at))) continue;
      impl_->not_finite(layer, layout::kGate, static_cast<int>(at / own.value_width()), "token",
                        token);
    }
  }
  return gate;
}

std::optional<OutputWeight> Trace::output_weight(int layer, int query_head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, impl_->attending(layer).num_heads, "query head");
  if (!entry.output_weight) return std::nullopt;
  OutputWeight weight = impl_->datasets.read_output_weight(
      layout::layer_dataset(layer, "output_weight"),
      {hdf5::extent(entry.model.num_heads), hdf5::extent(entry.model.value_width()),
       hdf5::extent(model().hidden_size)},
      query_head);
  if (const Eigen::Index row = weight.first_row_not_finite(); row >= 0) {
    impl_->not_finite(layer, "output_weight", query_head, "row", row);
  }
  return weight;
}

std::vector<float> Trace::value_out_norm(int layer, int query_head, Norm norm) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, impl_->attending(layer).num_heads, "query head");
  if (norm == Norm::l1 ? entry.norm_l1 : entry.norm_l2) {
    return impl_->datasets.read_row(
        layout::layer_dataset(layer, norm == Norm::l1 ? "value_out_norm_l1" : "value_out_norm_l2"),
        entry.model.num_heads, length(), query_head);
  }
  const std::optional<OutputWeight> weight = output_weight(layer, query_head);
  if (!weight) return {};
  return output_norms(view(value(layer, entry.model.head_of(query_head))), *weight, norm);
}

std::vector<float> Trace::attention_logsumexp(int layer, int query_head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, impl_->attending(layer).num_heads, "query head");
  if (!entry.logsumexp) return {};
  return impl_->datasets.read_row(layout::layer_dataset(layer, "attention_logsumexp"),
                                  entry.model.num_heads, length(), query_head);
}

std::vector<float> Trace::residual_change(int layer) const {
  if (!impl_->layer_at(layer).residual_change) return {};
  const std::string path = layout::layer_dataset(layer, layout::kResidualChange);
  const Shape shape{hdf5::extent(length())};
  std::vector<float> changes = impl_->datasets.guarded(
      [&] { return impl_->datasets.read_all<float>(path, Kind::real, shape, H5T_NATIVE_FLOAT); });
  for (std::size_t token = 0; token < changes.size(); ++token) {
    if (std::isfinite(changes[token])) continue;
    throw WorkError(fmt::format("{}: residual_change of layer {}, token {} is not a finite number",
                                impl_->datasets.path().string(), layer, token));
  }
  return changes;
}
bool Trace::has_residual_change() const {
  return std::all_of(impl_->layers.begin(), impl_->layers.end(),
                     [](const Impl::Layer& layer) { return layer.residual_change; });
}

bool Trace::has_output_weight() const {
  return std::all_of(impl_->layers.begin(), impl_->layers.end(), [](const Impl::Layer& layer) {
    return layer.output_weight || !layer.model.attends();
  });
}

bool Trace::has_lm_head() const { return impl_->lm_head; }
const std::vector<std::int32_t>& Trace::head_row_ids() const { return impl_->head_row_ids; }
bool Trace::has_final_norm() const { return impl_->final_norm; }
const std::optional<ProbeInfo>& Trace::probe() const { return impl_->probe; }
const TraceDatasets& Trace::file() const { return impl_->datasets; }

std::optional<Trace::Predictions> Trace::predictions() const {
  if (impl_->top_k == 0 && !impl_->loss) return std::nullopt;
  return impl_->datasets.guarded([&]() -> std::optional<Predictions> {
    Predictions result;
    result.k = impl_->top_k;
    const hsize_t count = hdf5::extent(length()), k = hdf5::extent(result.k);
    if (k > 0) {
      result.token_ids = impl_->datasets.read_all<std::int32_t>(
          "/predictions/token_ids", Kind::integer, {count, k}, H5T_NATIVE_INT32);
      result.logprob = impl_->datasets.read_all<float>("/predictions/logprob", Kind::real,
                                                       {count, k}, H5T_NATIVE_FLOAT);
    }
    if (impl_->loss) {
      result.loss = impl_->datasets.read_all<float>("/predictions/loss", Kind::real, {count},
                                                    H5T_NATIVE_FLOAT);
    }
    return result;
  });
}

std::optional<std::vector<std::string>> Trace::vocabulary() const {
  if (impl_->vocabulary_bytes == 0) return std::nullopt;
  return impl_->datasets.guarded(
      [&] { return read_vocabulary(impl_->datasets, model(), impl_->vocabulary_bytes); });
}

std::optional<Matrix> Trace::lm_head() const {
  if (!impl_->lm_head) return std::nullopt;
  return impl_->datasets.read_matrix(
      layout::kHead, {hdf5::extent(model().vocab_size), hdf5::extent(model().hidden_size)}, 0);
}

std::optional<Matrix> Trace::final_hidden() const {
  if (!impl_->hidden) return std::nullopt;
  return impl_->datasets.read_matrix(
      "/predictions/hidden", {hdf5::extent(length()), hdf5::extent(model().hidden_size)}, 0);
}

std::optional<std::vector<std::int32_t>> Trace::evicted_at(int layer, int head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(head, impl_->attending(layer).num_kv_heads, "head");
  if (entry.model.shares_with >= 0) return evicted_at(entry.model.shares_with, head);
  if (!entry.evicted_at) return std::nullopt;
  return read_evicted_at(impl_->datasets, entry.model, blocks(), layer, head);
}

std::vector<MergedEntry> Trace::merges(int layer) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  if (entry.model.shares_with >= 0) return merges(entry.model.shares_with);
  if (!entry.merges) return {};
  return impl_->datasets.guarded(
      [&] { return read_merges(impl_->datasets, entry.model, layer, blocks().size(), length()); });
}

std::vector<Trace::DatasetInfo> Trace::datasets() const {
  return impl_->datasets.guarded([&] {
    std::vector<DatasetInfo> result;
    for (const std::string& path : hdf5::dataset_paths(impl_->datasets.file())) {
      const Dataset dataset = hdf5::open_dataset(impl_->datasets.file(), path);
      result.push_back({path,
                        dataset.type_name(),
                        {dataset.shape.begin(), dataset.shape.end()},
                        static_cast<std::size_t>(dataset.stored_bytes)});
    }
    return result;
  });
}

}  // namespace kvloupe

#include "analysis/trace/trace_writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/utf8.h"
#include "analysis/trace/half.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/hdf5_output.h"
#include "analysis/trace/trace_attributes.h"
#include "analysis/trace/trace_check.h"
#include "analysis/trace/trace_layout.h"
#include "version.h"

namespace kvloupe {

namespace fs = std::filesystem;
using hdf5::Handle;
using hdf5::Shape;

namespace {
constexpr std::size_t kConversionStep = std::size_t{1} << 20;  // floats converted at a time

constexpr const char* kDiskAdvice = "check the folder and the space on the disk";

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("TraceWriter: ") + what);
}

std::size_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

/// Its place; the number of values where all are finite.
std::size_t first_not_finite(std::span<const float> values) {
  if (std::isfinite(largest_magnitude(values))) return values.size();
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  return static_cast<std::size_t>(bad - values.begin());
}

}  // namespace

struct TraceWriter::Impl {
  /// A dataset that grows along its axis of tokens; states are float16 until one overflows it.
  struct Rows {
    FloatDataset floats;
    std::size_t axis = 0;
    int written = 0;  // tokens
  };
  struct Layer {
    ModelInfo model;  // what holds in this layer
    Handle attention;
    int attention_rows = 0;
    int evicted_at = 0;  // tokens of the dataset; 0: none
  };

  fs::path target;
  std::unique_ptr<UnfinishedFile> unfinished;  // outlives what HDF5 has open of it
  ModelInfo model;
  TraceWriterOptions options;
  int tokens = 0;  // the most there can be
  int predicted = 0;
  int probe_tokens = 0;  // 0: no probe
  int given = 0;         // tokens after the prompt
  bool finished = false;
  const std::uint64_t failed_closings = hdf5::failed_closings();  // before the first of this file
  Handle file, half;
  Handle prediction_ids, prediction_logprob;
  std::map<std::string, Rows> rows;  // by path, made when first written
  std::vector<Layer> layers;
  std::vector<std::string> notes;

  /// Runs `work` under the lock; a failure inside becomes a FileError about the target.
  template <typename Work>
  void guarded(Work work) {
    try {
      const hdf5::Lock lock;
      work();
    } catch (const hdf5::Failure& failure) {
      throw FileError(target.string(),
                      fmt::format("cannot be written: {}; {}", failure.what(), kDiskAdvice));
    }
  }

  /// Claims a new file beside the target, so that a bad folder is found before any work.
  void claim_temporary() {
    std::error_code ignored;
    if (fs::is_directory(target, ignored)) {
      throw FileError(target.string(), "is a folder; name a file inside it");
    }
    if (target.filename().empty())
      throw FileError(target.string(), "does not name a file; give a name");
    unfinished = std::make_unique<UnfinishedFile>(target.string());
    if (unfinished->error() == 0) return;
    throw FileError(target.string(), fmt::format("cannot be written ({}); {}",
                                                 std::strerror(unfinished->error()), kDiskAdvice));
  }

  void create_file() {
    file = hdf5::create_file(unfinished->path());
    half = hdf5::half_type();
    write_attributes("/", {{"complete", false}});
    if (layers.empty()) return;  // a description will come
    for (const char* group : {"/model", "/run", "/tokens", "/layers"})
      hdf5::create_group(file, group);
    for (int layer = 0; layer < model.num_layers; ++layer)
      hdf5::create_group(file, layout::layer_group(layer));
    write_attributes(
        "/", {{"format", layout::kFormat},
              {"format_version", version()},
              {"generator", "kvloupe " KVLOUPE_VERSION},
              {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}});
    const Handle of_model = hdf5::open_group(file, "/model");
    write_model_attributes(of_model, model, options.fingerprint);
    if (!options.shared_weights.empty())
      hdf5::write_attribute(of_model, layout::kSharedWeights, options.shared_weights);
    for (int layer = 0; layer < std::ssize(options.layers); ++layer) {
      const LayerAttributes& said = options.layers[static_cast<std::size_t>(layer)];
      write_layer_attributes(hdf5::open_group(file, layout::layer_group(layer)), said);
      if (said.sink_logits.empty()) continue;
      const hsize_t heads = hdf5::extent(layer_at(layer).model.num_heads);
      require(said.sink_logits.size() == heads, "sink logits of the wrong size");
      write_array(layout::layer_dataset(layer, "sink_logits"), {heads}, said.sink_logits.data());
    }
  }

  /// The lowest version that describes the trace.
  int version() const {
    const bool new_layers =
        std::any_of(options.layers.begin(), options.layers.end(), needs_version_2);
    return new_layers || model.rotary_start > 0 || model.expanded_latent ? 2 : 1;
  }

  /// A new dataset of `shape`; its chunks are of one head, or of all that each token has.
  Rows make_rows(const std::string& path, const Shape& shape, std::size_t axis,
                 bool as_half) const {
    create_groups_of(path);
    Shape chunk = shape;
    chunk.at(axis) = hdf5::extent(
        layout::even_chunk(static_cast<int>(shape[axis]),
                           shape.size() == 1 ? layout::kPredictionChunk : layout::kStateChunk));
    const bool strips = axis == 1 && shape.size() == 2;  // a few numbers of each head at a time
    if (shape.size() == 3) chunk[0] = 1;
    return {FloatDataset::create(file, path, as_half, shape, chunk,
                                 strips ? 2 * chunk[0] * chunk[1] * sizeof(float) : 0),
            axis};
  }

  void note_wide(const std::string& path) {
    notes.push_back(path + " is stored as float32: its values overflow float16");
  }

  /// Tokens [first, first + m) of a dataset with this axis of tokens.
  void write_rows(const std::string& path, const Shape& shape, std::size_t axis, bool as_half,
                  int first, int m, std::span<const float> values) {
    auto found = rows.find(path);
    if (found == rows.end())
      found = rows.emplace(path, make_rows(path, shape, axis, as_half)).first;
    FloatDataset& floats = found->second.floats;
    Shape start(shape.size(), 0), count = shape;
    advance_to(found->second.written, first, m, static_cast<int>(shape.at(axis)));
    start[axis] = hdf5::extent(first);
    count[axis] = hdf5::extent(m);
    require(shape == floats.shape && values.size() == elements_of(count),
            "values of the wrong size");
    if (floats.half && largest_magnitude(values) >= kHalfOverflow) {
      floats.widen(file, axis, first);
      note_wide(path);
    }
    floats.write(start, count, values);
  }

  /// States [heads,m,width] of a layer, whose numbers must be finite.
  void write_states(int layer, const char* name, int heads, int width, int first, int m,
                    std::span<const float> values) {
    const bool probe = std::string_view(name).starts_with("probe_");
    const Shape shape{hdf5::extent(heads), hdf5::extent(probe ? probe_tokens : tokens),
                      hdf5::extent(width)};
    const std::size_t bad = first_not_finite(values), row = bad / shape[2];
    if (bad < values.size()) {
      throw WorkError(fmt::format("layer {}, {} of head {}, token {}: not a finite number", layer,
                                  name, row / hdf5::extent(m),
                                  hdf5::extent(first) + row % hdf5::extent(m)));
    }
    write_rows(layout::layer_dataset(layer, name), shape, 1, !options.store_f32, first, m, values);
  }
  /// One number for each query head and token.
  void write_per_token(int layer, const char* name, int first, int m,
                       std::span<const float> values) {
    const Shape shape{hdf5::extent(layer_at(layer).model.num_heads), hdf5::extent(tokens)};
    write_rows(layout::layer_dataset(layer, name), shape, 1, false, first, m, values);
  }

  /// A whole float16 (or wider) weight, in pieces of its first dimension.
  void write_weight(const std::string& path, const Shape& shape, std::span<const float> values,
                    bool as_half) {
    if (as_half && largest_magnitude(values) >= kHalfOverflow) {
      as_half = false;
      note_wide(path);
    }
    create_groups_of(path);
    const FloatDataset floats = FloatDataset::create(file, path, as_half, shape, {});
    const std::size_t row = values.size() / shape[0];
    const std::size_t step =
        std::max<std::size_t>(1, kConversionStep / std::max<std::size_t>(row, 1));
    for (std::size_t first = 0; first < shape[0]; first += step) {
      Shape start(shape.size(), 0), count = shape;
      start[0] = first;
      count[0] = std::min<hsize_t>(step, shape[0] - first);
      floats.write(start, count, values.subspan(first * row, count[0] * row));
    }
  }

  Layer& layer_at(int layer) {
    require(layer >= 0 && layer < model.num_layers, "no such layer");
    return layers[static_cast<std::size_t>(layer)];
  }

  /// Checks that a block continues what was written and moves the mark past it.
  void advance(int& written, int first, int m) const { advance_to(written, first, m, tokens); }
  static void advance_to(int& written, int first, int m, int most) {
    require(first == written && m > 0 && m <= most - first, "blocks out of order");
    written = first + m;
  }

  void cut(const Handle& id, Shape shape, const char* what) const {
    if (id.valid()) hdf5::check(H5Dset_extent(id, shape.data()), std::string("cannot cut ") + what);
  }
  /// Those that an object of this path is in.
  void create_groups_of(const std::string& path) const {
    for (std::size_t end = path.find('/', 1); end != path.npos; end = path.find('/', end + 1)) {
      const std::string group = path.substr(0, end);
      if (!hdf5::exists(file, group)) hdf5::create_group(file, group);
    }
  }
  void write_attributes(const std::string& path, const nlohmann::json& attributes) const;
  void write_texts(const std::vector<std::string>& texts) const;
  void open();
  void seal();
  void cut_to(int count);
  void write_tokens(const TokenTable& table, int count);
  /// A dataset as it is given; `type`: of kvloupe_engine_writer_array().
  void write_whole(const std::string& path, int type, const Shape& shape, const void* data) const {
    const Handle merged = hdf5::merged_entry_type(true);
    const std::map<int, hid_t> types{{0, H5T_IEEE_F32LE}, {1, half},         {3, H5T_STD_I32LE},
                                     {4, H5T_STD_I64LE},  {5, H5T_STD_U8LE}, {6, merged}};
    require(types.contains(type), "numbers of an unknown type");
    create_groups_of(path);
    hdf5::write_array(file, path, types.at(type), types.at(type), shape, data);
  }
  template <typename T>
  void write_array(const std::string& path, const Shape& shape, const T* data) {
    constexpr int kType = std::is_same_v<T, float>          ? 0
                          : std::is_same_v<T, std::int32_t> ? 3
                          : std::is_same_v<T, std::int64_t> ? 4
                          : std::is_same_v<T, MergedEntry>  ? 6
                                                            : 5;
    guarded([&] { write_whole(path, kType, shape, data); });
  }

  void close_datasets() {
    layers.clear();
    rows.clear();
    prediction_ids.reset();
    prediction_logprob.reset();
  }
};

TraceWriter::TraceWriter(fs::path target, ModelInfo model, RunInfo run, TraceWriterOptions options)
    : impl_(std::make_unique<Impl>()) {
  require(model.num_layers > 0 && model.num_kv_heads > 0 && model.head_dim > 0 &&
              model.num_heads > 0 && model.num_heads % model.num_kv_heads == 0,
          "a model without layers or heads, or whose heads do not divide");
  require(run.prompt_length > 0 && run.generated >= 0, "a run without tokens");
  impl_->target = std::move(target);
  impl_->model = std::move(model);
  impl_->options = options;
  impl_->tokens = run.tokens();
  impl_->layers.resize(static_cast<std::size_t>(impl_->model.num_layers));
  const std::vector<LayerAttributes> plain(impl_->layers.size());
  require(impl_->options.layers.empty() || impl_->options.layers.size() == plain.size(),
          "attributes of another number of layers");
  try {
    const std::vector<ModelInfo> models =
        layer_models(impl_->model, impl_->options.layers.empty() ? plain : impl_->options.layers);
    for (std::size_t layer = 0; layer < models.size(); ++layer)
      impl_->layers[layer].model = models[layer];
  } catch (const hdf5::Failure& failure) {
    throw std::invalid_argument(std::string("TraceWriter: ") + failure.what());
  }
  impl_->open();
}

TraceWriter::TraceWriter(fs::path target, int tokens) : impl_(std::make_unique<Impl>()) {
  require(tokens > 0, "a trace without tokens");
  impl_->target = std::move(target);
  impl_->tokens = tokens;
  impl_->open();
}

void TraceWriter::Impl::open() {
  claim_temporary();
  try {
    guarded([&] { create_file(); });
  } catch (...) {  // the destructor does not run
    close_datasets();
    file.reset();
    throw;
  }
}

TraceWriter::~TraceWriter() {
  impl_->close_datasets();
  impl_->file.reset();
}

void TraceWriter::write_states(int layer, int first, int m, std::span<const float> query,
                               std::span<const float> key, std::span<const float> value) {
  const ModelInfo& model = impl_->layer_at(layer).model;
  require(model.attends(), "states of a layer that has none");
  require(model.stores() || (key.empty() && value.empty()),
          "keys or values of a layer that reads those of another one");
  require(!model.value_is_key_prefix || value.empty(), "values of a layer whose keys hold them");
  impl_->guarded([&] {
    impl_->write_states(layer, "query", model.num_heads, model.head_dim, first, m, query);
    if (!model.stores()) return;
    impl_->write_states(layer, "key", model.num_kv_heads, model.head_dim, first, m, key);
    if (model.value_is_key_prefix) return;
    impl_->write_states(layer, "value", model.num_kv_heads, model.value_width(), first, m, value);
  });
}

void TraceWriter::write_gate(int layer, int first, int m, std::span<const float> gate) {
  const ModelInfo& model = impl_->layer_at(layer).model;
  require(
      !impl_->options.layers.empty() && impl_->options.layers[static_cast<std::size_t>(layer)].gate,
      "a gate that the layer's attributes do not announce");
  const std::size_t head = hdf5::extent(model.value_width());
  const Shape shape{hdf5::extent(impl_->tokens), hdf5::extent(model.num_heads) * head};
  if (const std::size_t bad = first_not_finite(gate); bad < gate.size()) {
    throw WorkError(fmt::format("layer {}, gate of query head {}, token {}: not a finite number",
                                layer, bad % shape[1] / head,
                                hdf5::extent(first) + bad / shape[1]));
  }
  write_rows(layout::layer_dataset(layer, layout::kGate), shape, 0, !impl_->options.store_f32,
             first, m, gate);
}

void TraceWriter::write_rows(const std::string& path, const Shape& shape, std::size_t axis,
                             bool as_half, int first, int m, std::span<const float> values) {
  impl_->guarded([&] { impl_->write_rows(path, shape, axis, as_half, first, m, values); });
}

void TraceWriter::read_rows(const std::string& path, int head, int m, float* values) {
  impl_->guarded([&] {
    const Impl::Rows& rows = impl_->rows.at(path);
    Shape start(rows.floats.shape.size(), 0), count = rows.floats.shape;
    require(
        rows.axis == 1 && head >= 0 && hdf5::extent(head) < count[0] && m >= 0 && m <= rows.written,
        "no such states to read back");
    start[0] = hdf5::extent(head);
    count[0] = 1;
    count[1] = hdf5::extent(m);
    rows.floats.read(start, count, {values, elements_of(count)});
  });
}

void TraceWriter::write_whole(const std::string& path, int type, const Shape& shape,
                              const void* data) {
  impl_->guarded([&] { impl_->write_whole(path, type, shape, data); });
}

void TraceWriter::write_weight(const std::string& path, const Shape& shape,
                               std::span<const float> values, bool as_half) {
  require(values.size() == elements_of(shape), "a weight of the wrong size");
  impl_->guarded([&] { impl_->write_weight(path, shape, values, as_half); });
}

void TraceWriter::write_attention(int layer, int first, int m, std::span<const float> attention) {
  Impl::Layer& entry = impl_->layer_at(layer);
  impl_->advance(entry.attention_rows, first, m);
  const std::size_t n = static_cast<std::size_t>(first) + static_cast<std::size_t>(m);
  const std::size_t heads = static_cast<std::size_t>(entry.model.num_heads);
  const std::size_t rows = static_cast<std::size_t>(m);
  require(attention.size() == heads * rows * n, "attention of the wrong size");
  impl_->guarded([&] {
    const std::string path = layout::layer_dataset(layer, "attention");
    const hsize_t side = hdf5::extent(layout::even_chunk(impl_->tokens, layout::kAttentionChunk));
    if (!entry.attention.valid()) {
      entry.attention = hdf5::create_dataset(
          impl_->file, path, impl_->half,
          {heads, hdf5::extent(impl_->tokens), hdf5::extent(impl_->tokens)}, {1, side, side}, 0);
    }
    // Stripes of one chunk's height, each only as wide as its last query sees.
    for (std::size_t row = 0; row < rows;) {
      const std::size_t at = static_cast<std::size_t>(first) + row;
      const std::size_t stripe_end = (at / side + 1) * side;
      const std::size_t height = std::min(rows - row, stripe_end - at);
      const std::size_t width = at + height;
      std::vector<std::uint16_t> narrow(heads * height * width);
      for (std::size_t line = 0; line < heads * height; ++line) {
        const std::size_t head = line / height, i = row + line % height;
        halves_from_floats(attention.subspan((head * rows + i) * n, width),
                           std::span(narrow).subspan(line * width, width));
      }
      hdf5::write_slab(entry.attention, impl_->half, {0, at, 0}, {heads, height, width},
                       narrow.data(), path);
      row += height;
    }
  });
}

void TraceWriter::write_attention_logsumexp(int layer, int first, int m,
                                            std::span<const float> values) {
  impl_->guarded([&] { impl_->write_per_token(layer, "attention_logsumexp", first, m, values); });
}

void TraceWriter::write_output_weight(int layer, std::span<const float> weight) {
  const ModelInfo& model = impl_->layer_at(layer).model;
  const Shape shape{hdf5::extent(model.num_heads), hdf5::extent(model.value_width()),
                    hdf5::extent(model.hidden_size)};
  write_weight(
      layout::layer_dataset(layer, "output_weight"), shape, weight,
      !impl_->options.store_f32 || (impl_->options.half_output_weight && are_halves(weight)));
}

void TraceWriter::write_value_out_norms(int layer, int first, int m, std::span<const float> l1,
                                        std::span<const float> l2) {
  impl_->guarded([&] {
    impl_->write_per_token(layer, "value_out_norm_l1", first, m, l1);
    impl_->write_per_token(layer, "value_out_norm_l2", first, m, l2);
  });
}

void TraceWriter::write_residual_change(int layer, int first, int m,
                                        std::span<const float> changes) {
  impl_->layer_at(layer);
  if (const std::size_t bad = first_not_finite(changes); bad < changes.size()) {
    throw WorkError(fmt::format("layer {}, residual stream after token {}: not a finite number",
                                layer, hdf5::extent(first) + bad));
  }
  write_rows(layout::layer_dataset(layer, layout::kResidualChange), {hdf5::extent(impl_->tokens)},
             0, false, first, m, changes);
}

void TraceWriter::write_predictions(int first, int m, std::span<const std::int32_t> ids,
                                    std::span<const float> logprobs) {
  impl_->advance(impl_->predicted, first, m);
  const hsize_t k = hdf5::extent(impl_->options.top_k);
  require(k > 0 && ids.size() == hdf5::extent(m) * k && logprobs.size() == ids.size(),
          "predictions of the wrong size");
  const Shape shape{hdf5::extent(impl_->tokens), k}, start{hdf5::extent(first), 0};
  const Shape chunk{hdf5::extent(layout::even_chunk(impl_->tokens, layout::kPredictionChunk)), k};
  const auto put = [&](Handle& id, const std::string& path, hid_t in_file, hid_t in_memory,
                       const void* data) {
    impl_->create_groups_of(path);
    if (!id.valid())
      id = hdf5::create_dataset(impl_->file, path, in_file, shape, chunk, 2 * chunk[0] * k * 4);
    hdf5::write_slab(id, in_memory, start, {hdf5::extent(m), k}, data, path);
  };
  impl_->guarded([&] {
    put(impl_->prediction_ids, "/predictions/token_ids", H5T_STD_I32LE, H5T_NATIVE_INT32,
        ids.data());
    put(impl_->prediction_logprob, "/predictions/logprob", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
        logprobs.data());
  });
}

void TraceWriter::write_final_hidden(int first, int m, std::span<const float> hidden) {
  write_rows("/predictions/hidden",
             {hdf5::extent(impl_->tokens), hdf5::extent(impl_->model.hidden_size)}, 0, false, first,
             m, hidden);
}

void TraceWriter::write_final_norm(std::span<const float> weight) {
  const hsize_t width = hdf5::extent(impl_->model.hidden_size);
  require(weight.size() == width, "weights of the last norm of the wrong size");
  impl_->write_array(layout::kFinalNorm, {width}, weight.data());
}

void TraceWriter::write_final_rms(int first, int m, std::span<const float> rms) {
  write_rows(layout::kFinalRms, {hdf5::extent(impl_->tokens)}, 0, false, first, m, rms);
}

void TraceWriter::write_lm_head(std::span<const float> weight) {
  require(!weight.empty(), "an empty LM head");
  write_weight(layout::kHead,
               {hdf5::extent(impl_->model.vocab_size), hdf5::extent(impl_->model.hidden_size)},
               weight, true);
}

void TraceWriter::write_lm_head_rows(std::span<const std::int32_t> ids,
                                     std::span<const float> weight) {
  const Shape shape{ids.size(), hdf5::extent(impl_->model.hidden_size)};
  require(!ids.empty() && ids.front() >= 0 && ids.back() < impl_->model.vocab_size &&
              std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end(),
          "ids of the LM head's rows that do not ascend within the vocabulary");
  write_weight(layout::kHeadRows, shape, weight, true);
  impl_->write_array(layout::kHeadRowIds, {shape[0]}, ids.data());
}

void TraceWriter::write_vocabulary(const std::vector<std::string>& texts) {
  require(texts.size() == hdf5::extent(impl_->model.vocab_size), "a vocabulary of the wrong size");
  std::string all;
  std::vector<std::int64_t> ends;
  for (const std::string& text : texts) {
    all += spell_bytes(text);
    ends.push_back(static_cast<std::int64_t>(all.size()));
  }
  if (all.empty()) return;
  impl_->guarded([&] {
    impl_->write_array(layout::kVocabularyText, {all.size()}, all.data());
    impl_->write_attributes(layout::kVocabularyText, {{layout::kSpelled, true}});
    impl_->write_array(layout::kVocabularyEnds, {ends.size()}, ends.data());
  });
}

void TraceWriter::write_probe(const ProbeInfo& probe) {
  require(impl_->probe_tokens == 0 && !probe.passes.empty() && probe.tokens() > 0,
          "a probe without passes, or a second one");
  impl_->probe_tokens = probe.tokens();
  std::vector<std::int32_t> bounds;
  for (const ProbePass& pass : probe.passes) {
    bounds.insert(bounds.end(),
                  {pass.tokens.first, pass.tokens.end, pass.context.first, pass.context.end});
  }
  impl_->guarded([&] {
    impl_->write_attributes(layout::kProbe, {{layout::kProbeKind, probe.kind},
                                             {layout::kProbeContextEnd, probe.context_end}});
    impl_->write_array(layout::kProbeIds, {probe.ids.size()}, probe.ids.data());
    impl_->write_array(layout::kProbePasses, {probe.passes.size(), 4}, bounds.data());
  });
}

void TraceWriter::write_probe_states(int layer, int first, int m, std::span<const float> query,
                                     std::span<const float> key,
                                     std::span<const float> input_norm) {
  impl_->guarded([&] {
    const ModelInfo& own = impl_->layer_at(layer).model;
    impl_->write_states(layer, layout::kProbeQuery, own.num_heads, own.head_dim, first, m, query);
    if (own.stores()) {
      impl_->write_states(layer, layout::kProbeKey, own.num_kv_heads, own.head_dim, first, m, key);
    }
    impl_->write_rows(layout::layer_dataset(layer, layout::kProbeInputNorm),
                      {hdf5::extent(impl_->probe_tokens)}, 0, false, first, m, input_norm);
  });
}

void TraceWriter::write_evicted_at(int layer, std::span<const std::int32_t> evicted_at) {
  Impl::Layer& entry = impl_->layer_at(layer);
  require(entry.model.stores(), "eviction steps of a layer without a cache of its own");
  const hsize_t heads = hdf5::extent(entry.model.num_kv_heads);
  const hsize_t count = evicted_at.size() / heads;
  require(count > 0 && evicted_at.size() == heads * count, "eviction steps of the wrong size");
  entry.evicted_at = static_cast<int>(count);
  impl_->write_array(layout::layer_dataset(layer, "evicted_at"), {heads, count}, evicted_at.data());
}

void TraceWriter::write_merges(int layer, std::span<const MergedEntry> merges) {
  impl_->layer_at(layer);
  require(!merges.empty(), "no merges to write");
  impl_->write_array(layout::layer_dataset(layer, "merges"), {merges.size()}, merges.data());
}

void TraceWriter::Impl::cut_to(int count) {
  const hsize_t n = hdf5::extent(count);
  for (auto& [path, one] : rows) {
    const bool probe = path.find("/probe_") != path.npos;
    Shape shape = one.floats.shape;
    require(one.written == (probe ? static_cast<int>(shape[one.axis]) : count),
            "rows of a dataset are missing");
    if (probe || count == tokens) continue;
    shape[one.axis] = n;
    cut(one.floats.id, shape, path.c_str());
  }
  for (std::size_t at = 0; at < layers.size(); ++at) {
    const Layer& layer = layers[at];
    const ModelInfo& own = layer.model;
    const auto needed = [&](const char* name, bool has) {
      require(!has || rows.contains(layout::layer_dataset(static_cast<int>(at), name)),
              "states of a layer are missing");
    };
    needed("query", own.attends());
    needed("key", own.stores());
    needed("value", own.stores() && !own.value_is_key_prefix);
    needed(layout::kGate, !options.layers.empty() && options.layers[at].gate);
    needed(layout::kProbeInputNorm, own.attends() && probe_tokens > 0);
    for (const int tokens_of : {layer.attention_rows, layer.evicted_at}) {
      require(tokens_of == 0 || tokens_of == count, "a layer's rows are missing");
    }
    if (count < tokens) cut(layer.attention, {hdf5::extent(own.num_heads), n, n}, "attention");
  }
  require(predicted == 0 || predicted == count, "predictions are missing");
  if (count < tokens) {
    cut(prediction_ids, {n, hdf5::extent(options.top_k)}, "predictions");
    cut(prediction_logprob, {n, hdf5::extent(options.top_k)}, "predictions");
  }
}

void TraceWriter::Impl::write_tokens(const TokenTable& table, int count) {
  const Shape shape{hdf5::extent(count)};
  const std::size_t n = shape[0];
  require(table.ids.size() == n, "token ids are missing");
  write_array("/tokens/ids", shape, table.ids.data());
  if (!table.text.empty()) {
    require(table.text.size() == n, "token texts are missing");
    std::vector<std::string> texts;
    for (const std::string& text : table.text) texts.push_back(spell_bytes(text));
    write_texts(texts);
  }
  if (!table.segment.empty()) {
    require(table.segment.size() == n, "token segments are missing");
    for (const std::uint8_t segment : table.segment) {
      require(segment < table.segment_names.size(), "a segment without a name");
    }
    write_array("/tokens/segment", shape, table.segment.data());
    write_attributes("/tokens/segment", {{"names", table.segment_names}});
  }
}

/// Texts as spell_bytes() spells them.
void TraceWriter::Impl::write_texts(const std::vector<std::string>& texts) const {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const Handle type = hdf5::string_type();
  hdf5::write_array(file, "/tokens/text", type, type, {texts.size()}, pointers.data());
  write_attributes("/tokens/text", {{layout::kSpelled, true}});
}

void TraceWriter::Impl::write_attributes(const std::string& path,
                                         const nlohmann::json& attributes) const {
  create_groups_of(hdf5::exists(file, path) ? path : path + "/");
  const Handle object(H5Oopen(file, path.c_str(), H5P_DEFAULT), H5Oclose, "has no " + path);
  for (const auto& [name, value] : attributes.items()) {
    if (value.is_boolean()) {
      hdf5::write_flag(object, name.c_str(), value.get<bool>());
    } else if (value.is_number_integer()) {
      hdf5::write_attribute(object, name.c_str(), value.get<std::int64_t>());
    } else if (value.is_number()) {
      hdf5::write_attribute(object, name.c_str(), value.get<double>());
    } else if (value.is_string()) {
      hdf5::write_attribute(object, name.c_str(), value.get<std::string>());
    } else {
      hdf5::write_attribute(object, name.c_str(), value.get<std::vector<std::string>>());
    }
  }
}

void TraceWriter::Impl::seal() {
  close_datasets();
  hdf5::check(H5Fflush(file, H5F_SCOPE_GLOBAL), "cannot close it");
  write_attributes("/", {{"complete", true}});
  hdf5::check(H5Fflush(file, H5F_SCOPE_GLOBAL), "cannot close it");
  file.reset();
  if (hdf5::failed_closings() != failed_closings) hdf5::check(-1, "cannot close it");
  if (const int error = unfinished->put_in_place(); error != 0) {
    throw hdf5::Failure(std::string("cannot name it (") + std::strerror(error) + ")");
  }
  remember_trace(unfinished->descriptor());
  finished = true;
}

void TraceWriter::finish(int tokens, const nlohmann::json& said) {
  require(impl_->layers.empty() && !impl_->finished && tokens <= impl_->tokens,
          "a description at the wrong time");
  impl_->guarded([&] {
    impl_->cut_to(tokens);
    if (said.contains("texts")) {
      const auto texts = said["texts"].get<std::vector<std::string>>();
      require(texts.size() == hdf5::extent(tokens), "token texts are missing");
      impl_->write_texts(texts);
    }
    for (const auto& [path, attributes] : said.at("attributes").items())
      impl_->write_attributes(path, attributes);
    impl_->seal();
  });
}

void TraceWriter::write_given(int count, std::span<const std::int32_t> own_answer) {
  impl_->given = count;
  if (own_answer.empty()) return;
  impl_->write_array(layout::kOwnAnswer, {own_answer.size()}, own_answer.data());
}

void TraceWriter::finish(const RunInfo& run, const TokenTable& tokens,
                         const std::vector<Block>& blocks, std::span<const float> loss) {
  require(!impl_->finished, "finished twice");
  const int count = run.tokens();
  require(run.prompt_length > 0 && run.generated >= 0 && count <= impl_->tokens,
          "more tokens than announced");
  std::vector<std::int32_t> bounds;
  for (const Block& block : blocks) {
    require(block.first == (bounds.empty() ? 0 : bounds.back()) && block.size() > 0,
            "steps that do not follow one another");
    bounds.insert(bounds.end(), {block.first, block.end});
  }
  require(!bounds.empty() && bounds.back() == count, "steps that do not cover the tokens");
  require(loss.empty() || loss.size() == hdf5::extent(count), "losses are missing");
  require(impl_->given >= 0 && impl_->given <= run.generated,
          "more tokens are given than there are");

  impl_->guarded([&] {
    impl_->cut_to(count);
    impl_->write_tokens(tokens, count);
    const Handle of_run = hdf5::open_group(impl_->file, "/run");
    write_run_attributes(of_run, run);
    if (!impl_->options.chat.empty()) hdf5::write_attribute(of_run, "chat", impl_->options.chat);
    hdf5::write_attribute(of_run, layout::kGiven, std::int64_t{impl_->given});
    impl_->write_array("/run/blocks", {blocks.size(), 2}, bounds.data());
    if (!loss.empty()) impl_->write_array("/predictions/loss", {hdf5::extent(count)}, loss.data());
    impl_->seal();
  });
}

const std::vector<std::string>& TraceWriter::notes() const { return impl_->notes; }

}  // namespace kvloupe

#include "analysis/trace/trace_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/base/text/text.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace {
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostHeads = 100'000;
constexpr std::int64_t kMostWidth = 10'000'000;  // of one head or the hidden state
constexpr std::size_t kMostMixer = 60;           // characters shown of a name
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

/// Attributes of one group, with their group's name in every message.
class Attributes {
 public:
  Attributes(hid_t file, std::string group)
      : group_(std::move(group)), id_(hdf5::open_group(file, group_)) {}

  int integer(const char* name, std::int64_t least, std::int64_t most) const {
    const std::optional<std::int64_t> value = hdf5::read_integer(id_, name);
    if (!value) throw missing(name);
    return checked(name, *value, least, most);
  }
  int integer_or(const char* name, int otherwise, std::int64_t least, std::int64_t most) const {
    return checked(name, hdf5::read_integer(id_, name).value_or(otherwise), least, most);
  }
  /// Finite and at least 0.
  double real(const char* name) const {
    const std::optional<double> value = hdf5::read_real(id_, name);
    if (!value) throw missing(name);
    return checked(name, *value);
  }
  double real_or(const char* name, double otherwise) const {
    return checked(name, hdf5::read_real(id_, name).value_or(otherwise));
  }
  std::string text_or(const char* name, const std::string& otherwise) const {
    return hdf5::read_text(id_, name).value_or(otherwise);
  }
  hid_t id() const { return id_; }

 private:
  hdf5::Failure missing(const char* name) const {
    return hdf5::Failure(fmt::format("has no attribute '{}' in {}", name, group_));
  }
  int checked(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value < least || value > most) {
      throw hdf5::Failure(fmt::format("attribute '{}' in {} is {}, not within {} to {}", name,
                                      group_, value, least, most));
    }
    return static_cast<int>(value);
  }
  double checked(const char* name, double value) const {
    if (!std::isfinite(value) || value < 0.0) {
      throw hdf5::Failure(fmt::format("attribute '{}' in {} is {}, not a number of at least 0",
                                      name, group_, value));
    }
    return value;
  }

  std::string group_;
  hdf5::Handle id_;
};

/// Returns the version.
int check_format(const Attributes& root) {
  if (root.text_or("format", "") != layout::kFormat) {
    throw hdf5::Failure("is an HDF5 file but not a kvloupe trace (attribute 'format')");
  }
  const int version = root.integer("format_version", 0, kMostTokens);
  if (version > layout::kVersion) {
    throw hdf5::Failure(fmt::format(
        "has format_version {}, but this kvloupe reads 1 to {}: open it with a newer kvloupe",
        version, layout::kVersion));
  }
  if (version < 1) throw hdf5::Failure("has a format_version below 1; versions start at 1");
  if (root.integer("complete", 0, 1) == 0) {
    throw hdf5::Failure("is incomplete: its capture did not finish");
  }
  return version;
}

ModelInfo read_model(const Attributes& attributes, int version) {
  ModelInfo model{.name = attributes.text_or("name", ""),
                  .architecture = attributes.text_or("architecture", ""),
                  .num_layers = attributes.integer("num_layers", 1, kMostLayers),
                  .num_heads = attributes.integer("num_heads", 1, kMostHeads),
                  .num_kv_heads = attributes.integer("num_kv_heads", 1, kMostHeads)};
  if (model.num_heads % model.num_kv_heads != 0) {
    throw hdf5::Failure(fmt::format("num_kv_heads {} does not divide num_heads {}",
                                    model.num_kv_heads, model.num_heads));
  }
  model.head_dim = attributes.integer("head_dim", 1, kMostWidth);
  model.hidden_size = attributes.integer("hidden_size", 1, kMostWidth);
  model.vocab_size = attributes.integer("vocab_size", 1, kMostTokens);
  model.rope_theta = attributes.real_or("rope_theta", 0.0);
  model.rope_scaling = attributes.text_or("rope_scaling", "null");
  const std::string pairing = attributes.text_or("rope_pairing", "half");
  if (pairing != "half" && pairing != "interleaved") {
    throw hdf5::Failure(
        fmt::format("attribute 'rope_pairing' is '{}', but must be half or interleaved", pairing));
  }
  model.rope_pairing = pairing == "half" ? RopePairing::half : RopePairing::interleaved;
  model.sliding_window = attributes.integer_or("sliding_window", 0, 0, kMostTokens);
  model.rotary_dim = attributes.integer_or("rotary_dim", 0, 0, model.head_dim);
  if (model.rotary_dim % 2 != 0) {
    throw hdf5::Failure(
        fmt::format("attribute 'rotary_dim' is {}, an odd number", model.rotary_dim));
  }
  if (version > 1) {
    model.rotary_start = attributes.integer_or("rotary_start", 0, 0, kMostWidth);
    const std::string mla = attributes.text_or("mla", "latent");
    if (mla != "latent" && mla != "expanded") {
      throw hdf5::Failure(fmt::format("attribute 'mla' is '{}', but must be latent or expanded",
                                      in_one_line(mla, kMostMixer)));
    }
    model.expanded_latent = mla == "expanded";
  }
  model.config = attributes.text_or("config", "");
  model.weights_format = attributes.text_or("weights_format", "");
  model.weights_type = attributes.text_or("weights_type", "");
  model.weights_file = attributes.text_or("weights_file", "");
  return model;
}

RunInfo read_run(const Attributes& attributes) {
  RunInfo run{.block_size = attributes.integer("block_size", 0, kMostTokens),
              .prompt_length = attributes.integer("prompt_length", 1, kMostTokens)};
  run.generated = attributes.integer("generated", 0, kMostTokens - run.prompt_length);
  run.dtype = attributes.text_or("dtype", "");
  run.device = attributes.text_or("device", "");
  run.threads = attributes.integer_or("threads", 0, 0, kMostTokens);
  run.policy = attributes.text_or("policy", kFullCache);
  run.budget = attributes.integer_or("budget", 0, 0, kMostTokens);
  run.seed = hdf5::read_unsigned(attributes.id(), "seed").value_or(0);
  run.seconds = attributes.real_or("seconds", 0.0);
  run.attention_scale = attributes.real("attention_scale");
  run.positions = attributes.text_or("positions", "original");
  const std::string compression =
      attributes.text_or("compression", compression_name(Compression::regular));
  if (compression == compression_name(Compression::context_only)) {
    run.compression = Compression::context_only;
  } else if (compression != compression_name(Compression::regular)) {
    throw hdf5::Failure(fmt::format(
        "attribute 'compression' is '{}', but must be regular or context-only", compression));
  }
  if (!(run.attention_scale > 0.0)) throw hdf5::Failure("attribute 'attention_scale' is 0");
  return run;
}
}  // namespace

namespace {
LayerKind kind_of(const std::string& name, int layer) {
  for (const LayerKind kind :
       {LayerKind::attention, LayerKind::none, LayerKind::shared, LayerKind::latent}) {
    if (name == layer_kind_name(kind)) return kind;
  }
  throw hdf5::Failure(
      fmt::format("attribute 'kind' of layer {} is '{}', but must be attention, none, shared or "
                  "latent: a newer "
                  "kvloupe may know it",
                  layer, in_one_line(name, kMostMixer)));
}

/// The attributes of a layer in version 2.
void read_shape(const Attributes& attributes, int layer, LayerAttributes& result) {
  const hid_t id = attributes.id();
  const auto optional = [&](const char* name, std::int64_t least,
                            std::int64_t most) -> std::optional<int> {
    if (!hdf5::read_integer(id, name)) return std::nullopt;
    return attributes.integer(name, least, most);
  };
  result.kind = kind_of(attributes.text_or("kind", "attention"), layer);
  result.mixer = in_one_line(attributes.text_or("mixer", ""), kMostMixer);
  result.num_heads = optional("num_heads", 1, kMostHeads);
  result.num_kv_heads = optional("num_kv_heads", 1, kMostHeads);
  result.key_dim = optional("key_dim", 1, kMostWidth);
  result.value_dim = optional("value_dim", 1, kMostWidth);
  result.shares_with = optional("shares_with", 0, kMostLayers);
  result.value_is_key_prefix = attributes.integer_or("value_is_key_prefix", 0, 0, 1) == 1;
  result.state_bytes = hdf5::read_integer(id, "state_bytes").value_or(0);
  if (result.state_bytes < 0) {
    throw hdf5::Failure(fmt::format("attribute 'state_bytes' of layer {} is {}, below 0", layer,
                                    result.state_bytes));
  }
  result.chunk_size = attributes.integer_or("chunk_size", 0, 0, kMostTokens);
  result.rotary_start = optional("rotary_start", 0, kMostWidth);
  result.rotary_dim = optional("rotary_dim", 0, kMostWidth);
}

[[noreturn]] void disagree(int layer, const std::string& what) {
  throw hdf5::Failure(fmt::format("layer {}: {}", layer, what));
}

/// A layer that reads the cache of `from`.
void take_shape(ModelInfo& own, const ModelInfo& from, const LayerAttributes& said, int layer) {
  const auto same = [&](const std::optional<int>& value, int other, const char* name) {
    if (value.value_or(other) == other) return;
    disagree(layer, fmt::format("attribute '{}' is {}, but layer {}, whose cache it reads, has {}",
                                name, *value, own.shares_with, other));
  };
  same(said.num_kv_heads, from.num_kv_heads, "num_kv_heads");
  same(said.key_dim, from.head_dim, "key_dim");
  same(said.value_dim, from.value_width(), "value_dim");
  own.num_kv_heads = from.num_kv_heads;
  own.head_dim = from.head_dim;
  own.value_dim = from.value_dim;
  own.value_is_key_prefix = from.value_is_key_prefix;
}
}  // namespace

std::vector<ModelInfo> layer_models(const ModelInfo& model,
                                    const std::vector<LayerAttributes>& layers) {
  std::vector<ModelInfo> result;
  for (const LayerAttributes& said : layers) {
    const int layer = static_cast<int>(result.size());
    ModelInfo own = model;
    own.kind = said.kind;
    own.mixer = said.mixer;
    own.state_bytes = said.state_bytes;
    own.sliding_window = said.sliding_window.value_or(said.chunk_size > 0 ? 0 : own.sliding_window);
    if (own.sliding_window > 0 && said.chunk_size > 0) {
      disagree(layer, "has a sliding window and chunks; a layer has one of them");
    }
    own.chunk_size = said.chunk_size;
    own.rope_theta = said.rope_theta.value_or(own.rope_theta);
    own.rope_scaling = said.rope_scaling.value_or(own.rope_scaling);
    if (said.rope_theta == 0.0) own.rope_scaling = kNoRotation;
    if (said.shares_with && said.kind != LayerKind::shared) {
      disagree(layer,
               fmt::format("has 'shares_with', but its kind is {}", layer_kind_name(said.kind)));
    }
    if (said.kind == LayerKind::none) {
      own.num_heads = own.num_kv_heads = 0;
      result.push_back(std::move(own));
      continue;
    }
    own.num_heads = said.num_heads.value_or(own.num_heads);
    if (said.kind == LayerKind::shared) {
      own.shares_with = said.shares_with.value_or(-1);
      if (own.shares_with < 0)
        disagree(layer, "reads another layer's cache, but has no 'shares_with'");
      if (own.shares_with >= layer || !result[static_cast<std::size_t>(own.shares_with)].stores()) {
        disagree(layer,
                 fmt::format("attribute 'shares_with' is {}, but must name an earlier layer that "
                             "has a cache of its own",
                             own.shares_with));
      }
      const ModelInfo& from = result[static_cast<std::size_t>(own.shares_with)];
      if (own.sliding_window != from.sliding_window) {
        disagree(layer,
                 fmt::format("attribute 'sliding_window' is {}, but layer {}, whose cache it "
                             "reads, has {} (0: none)",
                             own.sliding_window, own.shares_with, from.sliding_window));
      }
      if (own.chunk_size != from.chunk_size) {
        disagree(layer, fmt::format("attribute 'chunk_size' is {}, but layer {}, whose cache it "
                                    "reads, has {} (0: none)",
                                    own.chunk_size, own.shares_with, from.chunk_size));
      }
      take_shape(own, from, said, layer);
    } else {
      own.num_kv_heads =
          said.num_kv_heads.value_or(said.kind == LayerKind::latent ? 1 : own.num_kv_heads);
      own.head_dim = said.key_dim.value_or(own.head_dim);
      own.value_dim = said.value_dim.value_or(0);
      own.value_is_key_prefix = said.value_is_key_prefix;
      if (own.value_is_key_prefix && own.value_width() > own.head_dim) {
        disagree(layer,
                 fmt::format("its values are the first {} channels of its keys, which have {}",
                             own.value_width(), own.head_dim));
      }
    }
    if (own.num_heads % own.num_kv_heads != 0) {
      disagree(layer, fmt::format("num_kv_heads {} does not divide num_heads {}", own.num_kv_heads,
                                  own.num_heads));
    }
    own.rotary_start = said.rotary_start.value_or(own.rotary_start);
    own.rotary_dim = said.rotary_dim.value_or(own.rotary_dim);
    if (own.rotary_dim % 2 != 0) {
      disagree(layer, fmt::format("attribute 'rotary_dim' is {}, an odd number", own.rotary_dim));
    }
    if (own.rotary_start + own.rotary_dim > own.head_dim) {
      disagree(layer, fmt::format("{} channels from {} on rotate, but a key has {}", own.rotary_dim,
                                  own.rotary_start, own.head_dim));
    }
    result.push_back(std::move(own));
  }
  std::vector<int> heads;
  for (const ModelInfo& own : result) heads.push_back(own.stores() ? own.num_kv_heads : 0);
  if (std::any_of(heads.begin(), heads.end(), [&](int own) { return own != model.num_kv_heads; })) {
    for (ModelInfo& own : result) own.cache_heads = heads;
  }
  return result;
}

bool needs_version_2(const LayerAttributes& layer) {
  return layer.kind != LayerKind::attention || layer.num_heads || layer.num_kv_heads ||
         layer.key_dim || layer.value_dim || layer.value_is_key_prefix || layer.state_bytes > 0 ||
         layer.chunk_size > 0 || layer.rotary_start || layer.rotary_dim || layer.gate;
}

TraceAttributes read_trace_attributes(hid_t file) {
  TraceAttributes result;
  const Attributes root(file, "/");
  result.version = check_format(root);
  result.generator = root.text_or("generator", "");
  result.created = root.text_or("created", "");
  result.model = read_model(Attributes(file, "/model"), result.version);
  result.run = read_run(Attributes(file, "/run"));
  return result;
}

LayerAttributes read_layer_attributes(hid_t file, int layer, int version) {
  const Attributes attributes(file, layout::layer_group(layer));
  LayerAttributes result;
  const hid_t id = attributes.id();
  if (version > 1) read_shape(attributes, layer, result);
  result.without_output_weight = attributes.text_or("without_output_weight", "");
  if (hdf5::read_real(id, "attention_scale")) {
    result.attention_scale = attributes.real("attention_scale");
    if (!(*result.attention_scale > 0.0)) {
      throw hdf5::Failure(fmt::format("attribute 'attention_scale' of layer {} is 0", layer));
    }
  }
  result.attention_softcap = attributes.real_or("attention_softcap", 0.0);
  if (hdf5::read_integer(id, "sliding_window")) {
    result.sliding_window = attributes.integer("sliding_window", 0, kMostTokens);
  }
  if (hdf5::read_real(id, "rope_theta")) result.rope_theta = attributes.real("rope_theta");
  result.rope_scaling = hdf5::read_text(id, "rope_scaling");
  return result;
}

namespace {
/// Writes an attribute that is there.
template <typename T>
void write_some(hid_t group, const char* name, const std::optional<T>& value) {
  using Stored = std::conditional_t<std::is_same_v<T, int>, std::int64_t, T>;
  if (value) hdf5::write_attribute(group, name, Stored{*value});
}
template <typename T>
void write_positive(hid_t group, const char* name, T value) {
  if (value > 0) write_some(group, name, std::optional(value));
}
void write_text(hid_t group, const char* name, const std::string& text) {
  if (!text.empty()) hdf5::write_attribute(group, name, text);
}
}  // namespace

void write_layer_attributes(hid_t group, const LayerAttributes& layer) {
  if (layer.kind != LayerKind::attention) write_text(group, "kind", layer_kind_name(layer.kind));
  write_text(group, "mixer", layer.mixer);
  write_some(group, "num_heads", layer.num_heads);
  write_some(group, "num_kv_heads", layer.num_kv_heads);
  write_some(group, "key_dim", layer.key_dim);
  write_some(group, "value_dim", layer.value_dim);
  write_some(group, "shares_with", layer.shares_with);
  write_positive(group, "value_is_key_prefix", layer.value_is_key_prefix ? 1 : 0);
  write_positive(group, "state_bytes", layer.state_bytes);
  write_positive(group, "chunk_size", layer.chunk_size);
  write_some(group, "rotary_start", layer.rotary_start);
  write_some(group, "rotary_dim", layer.rotary_dim);
  write_text(group, "without_output_weight", layer.without_output_weight);
  write_some(group, "attention_scale", layer.attention_scale);
  write_positive(group, "attention_softcap", layer.attention_softcap);
  write_some(group, "sliding_window", layer.sliding_window);
  write_some(group, "rope_theta", layer.rope_theta);
  write_some(group, "rope_scaling", layer.rope_scaling);
}

void write_model_attributes(hid_t group, const ModelInfo& model, const std::string& fingerprint) {
  hdf5::write_attribute(group, "name", model.name);
  hdf5::write_attribute(group, "architecture", model.architecture);
  hdf5::write_attribute(group, "num_layers", std::int64_t{model.num_layers});
  hdf5::write_attribute(group, "num_heads", std::int64_t{model.num_heads});
  hdf5::write_attribute(group, "num_kv_heads", std::int64_t{model.num_kv_heads});
  hdf5::write_attribute(group, "head_dim", std::int64_t{model.head_dim});
  hdf5::write_attribute(group, "hidden_size", std::int64_t{model.hidden_size});
  hdf5::write_attribute(group, "vocab_size", std::int64_t{model.vocab_size});
  hdf5::write_attribute(group, "rope_theta", model.rope_theta);
  hdf5::write_attribute(group, "rope_scaling",
                        model.rope_scaling.empty() ? std::string("null") : model.rope_scaling);
  hdf5::write_attribute(
      group, "rope_pairing",
      std::string(model.rope_pairing == RopePairing::half ? "half" : "interleaved"));
  hdf5::write_attribute(group, "sliding_window", std::int64_t{model.sliding_window});
  write_positive(group, "rotary_dim", model.rotary_dim);
  write_positive(group, "rotary_start", model.rotary_start);
  if (model.expanded_latent) hdf5::write_attribute(group, "mla", std::string("expanded"));
  hdf5::write_attribute(group, "config", model.config);
  write_text(group, "weights_format", model.weights_format);
  write_text(group, "weights_type", model.weights_type);
  write_text(group, "weights_file", model.weights_file);
  write_text(group, layout::kFingerprint, fingerprint);
}

void write_run_attributes(hid_t group, const RunInfo& run) {
  hdf5::write_attribute(group, "block_size", std::int64_t{run.block_size});
  hdf5::write_attribute(group, "prompt_length", std::int64_t{run.prompt_length});
  hdf5::write_attribute(group, "generated", std::int64_t{run.generated});
  hdf5::write_attribute(group, "dtype", run.dtype);
  hdf5::write_attribute(group, "device", run.device);
  hdf5::write_attribute(group, "threads", std::int64_t{run.threads});
  hdf5::write_attribute(group, "policy", run.policy);
  hdf5::write_attribute(group, "budget", std::int64_t{run.budget});
  hdf5::write_attribute(group, "seed", run.seed);
  hdf5::write_attribute(group, "seconds", run.seconds);
  hdf5::write_attribute(group, "attention_scale", run.attention_scale);
  hdf5::write_attribute(group, "positions", run.positions);
  hdf5::write_attribute(group, "compression", std::string(compression_name(run.compression)));
}

}  // namespace kvloupe

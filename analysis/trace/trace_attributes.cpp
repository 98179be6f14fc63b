#include "analysis/trace/trace_attributes.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "analysis/trace/hdf5.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

namespace {
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostHeads = 100'000;
constexpr std::int64_t kMostWidth = 10'000'000;  // of one head or the hidden state
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

void check_format(const Attributes& root) {
  if (root.text_or("format", "") != layout::kFormat) {
    throw hdf5::Failure("is an HDF5 file but not a kvloupe trace (attribute 'format')");
  }
  const int version = root.integer("format_version", 0, kMostTokens);
  if (version > layout::kVersion) {
    throw hdf5::Failure(fmt::format(
        "has format_version {}, but this kvloupe reads {}: open it with a newer kvloupe", version,
        layout::kVersion));
  }
  if (version < 1) throw hdf5::Failure("has a format_version below 1; versions start at 1");
  if (root.integer("complete", 0, 1) == 0) {
    throw hdf5::Failure("is incomplete: its capture did not finish");
  }
}

ModelInfo read_model(const Attributes& attributes) {
  ModelInfo model;
  model.name = attributes.text_or("name", "");
  model.architecture = attributes.text_or("architecture", "");
  model.num_layers = attributes.integer("num_layers", 1, kMostLayers);
  model.num_heads = attributes.integer("num_heads", 1, kMostHeads);
  model.num_kv_heads = attributes.integer("num_kv_heads", 1, kMostHeads);
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
  model.config = attributes.text_or("config", "");
  model.weights_format = attributes.text_or("weights_format", "");
  model.weights_type = attributes.text_or("weights_type", "");
  model.weights_file = attributes.text_or("weights_file", "");
  return model;
}

RunInfo read_run(const Attributes& attributes) {
  RunInfo run;
  run.block_size = attributes.integer("block_size", 0, kMostTokens);
  run.prompt_length = attributes.integer("prompt_length", 1, kMostTokens);
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

TraceAttributes read_trace_attributes(hid_t file) {
  TraceAttributes result;
  const Attributes root(file, "/");
  check_format(root);
  result.generator = root.text_or("generator", "");
  result.created = root.text_or("created", "");
  result.model = read_model(Attributes(file, "/model"));
  result.run = read_run(Attributes(file, "/run"));
  return result;
}

LayerAttributes read_layer_attributes(hid_t file, int layer) {
  const Attributes attributes(file, "/layers/" + std::to_string(layer));
  LayerAttributes result;
  const hid_t id = attributes.id();
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

void write_layer_attributes(hid_t group, const LayerAttributes& layer) {
  if (layer.attention_scale) {
    hdf5::write_attribute(group, "attention_scale", *layer.attention_scale);
  }
  if (layer.attention_softcap > 0.0) {
    hdf5::write_attribute(group, "attention_softcap", layer.attention_softcap);
  }
  if (layer.sliding_window) {
    hdf5::write_attribute(group, "sliding_window", std::int64_t{*layer.sliding_window});
  }
  if (layer.rope_theta) hdf5::write_attribute(group, "rope_theta", *layer.rope_theta);
  if (layer.rope_scaling) hdf5::write_attribute(group, "rope_scaling", *layer.rope_scaling);
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
  if (model.rotary_dim > 0) {
    hdf5::write_attribute(group, "rotary_dim", std::int64_t{model.rotary_dim});
  }
  hdf5::write_attribute(group, "config", model.config);
  for (const auto& [name, text] : {std::pair{"weights_format", &model.weights_format},
                                   {"weights_type", &model.weights_type},
                                   {"weights_file", &model.weights_file}}) {
    if (!text->empty()) hdf5::write_attribute(group, name, *text);
  }
  if (!fingerprint.empty()) hdf5::write_attribute(group, layout::kFingerprint, fingerprint);
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

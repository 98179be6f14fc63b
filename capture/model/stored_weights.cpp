#include "capture/model/stored_weights.h"

#include <charconv>
#include <utility>

namespace kvloupe {

namespace {

constexpr std::string_view kLayers = "model.layers.";
constexpr std::string_view kExperts = "mlp.experts.";

/// Mixtral's name of a part of an expert.
std::string mixtral_part(const std::string& part) {
  if (part.starts_with("gate_proj")) return "w1" + part.substr(part.find('.'));
  if (part.starts_with("down_proj")) return "w2" + part.substr(part.find('.'));
  return "w3" + part.substr(part.find('.'));
}

}  // namespace

StoredWeights::StoredWeights(const ModelConfig& config, std::shared_ptr<const WeightSource> files)
    : layout_(config.layout),
      queries_(config.num_heads * config.head_dim),
      keys_(config.num_kv_heads * config.head_dim),
      hidden_(config.hidden_size),
      intermediate_(config.intermediate_size),
      experts_(config.experts),
      files_(std::move(files)) {}

StoredWeights::Place StoredWeights::place_of(const std::string& name) const {
  Place same;
  same.name = name;
  if (layout_ == WeightLayout::plain || !name.starts_with(kLayers)) return same;
  const std::size_t dot = name.find('.', kLayers.size());
  if (dot == name.npos) return same;
  const std::string layer = name.substr(0, dot + 1);  // with its point
  const std::string part = name.substr(dot + 1);
  if (layout_ == WeightLayout::fused) return fused_place(layer, part);
  const bool router = part == "mlp.gate.weight" || part == "mlp.gate.bias";
  if (router && layout_ == WeightLayout::mixtral) {
    same.name = layer + "block_sparse_moe.gate" + part.substr(part.rfind('.'));
  } else if (router && layout_ != WeightLayout::stacked) {
    same.name = layer + "mlp.router" + part.substr(part.rfind('.'));
  }
  if (!part.starts_with(kExperts)) return same;
  const char* const begin = part.data() + kExperts.size();
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(begin, part.data() + part.size(), index);
  if (error != std::errc() || end == part.data() + part.size() || *end != '.') return same;
  return expert_place(layer, index, end + 1);
}

StoredWeights::Place StoredWeights::fused_place(const std::string& layer,
                                                const std::string& part) const {
  const std::string attention = layer + "self_attn.qkv_proj.weight";
  const std::string mlp = layer + "mlp.gate_up_proj.weight";
  const std::vector<std::int64_t> all_heads{queries_ + 2 * keys_, hidden_};
  const std::vector<std::int64_t> both{2 * intermediate_, hidden_};
  if (part == "self_attn.q_proj.weight") return {attention, all_heads, -1, 0};
  if (part == "self_attn.k_proj.weight") return {attention, all_heads, -1, queries_};
  if (part == "self_attn.v_proj.weight") return {attention, all_heads, -1, queries_ + keys_};
  if (part == "mlp.gate_proj.weight") return {mlp, both, -1, 0};
  if (part == "mlp.up_proj.weight") return {mlp, both, -1, intermediate_};
  return {layer + part, {}};
}

StoredWeights::Place StoredWeights::expert_place(const std::string& layer, std::int64_t index,
                                                 const std::string& part) const {
  const std::int64_t count = experts_.count, size = experts_.intermediate_size;
  const bool down = part.starts_with("down_proj");
  const bool bias = part.ends_with(".bias");
  const std::string experts = layer + "mlp.experts.";
  switch (layout_) {
    case WeightLayout::mixtral:
      return {
          layer + "block_sparse_moe.experts." + std::to_string(index) + "." + mixtral_part(part),
          {}};
    case WeightLayout::stacked: {
      std::vector<std::int64_t> shape{count, down ? hidden_ : size};
      if (!bias) shape.push_back(down ? size : hidden_);
      return {experts + part, shape, index};
    }
    case WeightLayout::gpt_oss:
    case WeightLayout::gpt_oss_packed: {
      const bool packed = layout_ == WeightLayout::gpt_oss_packed;
      const std::int64_t out = down ? hidden_ : 2 * size, in = down ? size : hidden_;
      Place place{
          experts + (down ? "down_proj" : "gate_up_proj") + (bias ? "_bias" : ""), {}, index};
      place.shape = bias     ? std::vector{count, out}
                    : packed ? std::vector{count, out, in}
                             : std::vector{count, in, out};
      place.first = part.starts_with("up_proj") ? 1 : 0;
      place.step = down ? 1 : 2;  // gate and up in turns
      place.transposed = !bias && !packed;
      return place;
    }
    case WeightLayout::plain:
    case WeightLayout::fused:
      break;
  }
  return {experts + std::to_string(index) + "." + part, {}};
}

at::Tensor StoredWeights::whole_part(const Place& place, at::ScalarType type) const {
  if (held_name_ != place.name || held_index_ != place.index || held_.scalar_type() != type) {
    held_ = files_->rows(place.name, place.shape, place.index, place.index + 1, type, {})[0];
    held_name_ = place.name;
    held_index_ = place.index;
  }
  return held_;
}

at::Tensor StoredWeights::rows(const std::string& name, const std::vector<std::int64_t>& shape,
                               std::int64_t first, std::int64_t end, at::ScalarType type,
                               const at::Tensor& room) const {
  const Place place = place_of(name);
  if (place.index < 0) {
    return files_->rows(place.name, place.shape.empty() ? shape : place.shape, place.first + first,
                        place.first + end, type, room);
  }
  if (place.is_plain()) {
    const at::Tensor part =
        files_->rows(place.name, place.shape, place.index, place.index + 1, type, room)[0];
    return part.slice(0, place.first + first, place.first + end);
  }
  at::Tensor part = whole_part(place, type);
  if (place.transposed) part = part.t();
  const at::Tensor wanted = part.slice(0, place.first + first * place.step,
                                       place.first + (end - 1) * place.step + 1, place.step);
  return in_room(wanted.sizes().vec(), type, room).copy_(wanted);
}

bool StoredWeights::is_half(const std::string& name) const {
  return files_->is_half(place_of(name).name);
}

bool StoredWeights::is_mapped(const std::string& name, at::ScalarType type) const {
  const Place place = place_of(name);
  return place.is_plain() && files_->is_mapped(place.name, type);
}

void StoredWeights::refuse_others(const std::set<std::string>& used,
                                  const std::string& architecture) const {
  std::set<std::string> stored;
  for (const std::string& name : used) stored.insert(place_of(name).name);
  files_->refuse_others(stored, architecture);
}

}  // namespace kvloupe

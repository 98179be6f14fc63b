#include "analysis/metric/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/error.h"

namespace kvloupe {

Rope::Rope(const ModelInfo& model) : halves_(model.rope_pairing == RopePairing::half) {
  using nlohmann::json;
  if (!(model.rope_theta > 0.0)) {
    throw WorkError("the trace has no rope_theta: RoPE cannot be undone");
  }
  if (model.head_dim % 2 != 0) throw WorkError("an odd head dimension: RoPE cannot be undone");
  const std::string& text = model.rope_scaling;
  const json scaling = json::parse(text.empty() ? "null" : text, nullptr, false);
  const auto word = [&](const char* name) {
    return scaling.is_object() && scaling.contains(name) && scaling[name].is_string()
               ? scaling[name].get<std::string>()
               : std::string();
  };
  const std::string type = word("rope_type").empty() ? word("type") : word("rope_type");
  if (!scaling.is_null() && type != "default") {
    throw WorkError(
        fmt::format("RoPE with scaling '{}' cannot be undone; only keys after RoPE can be used",
                    type.empty() ? text : type));
  }
  const json config = json::parse(model.config, nullptr, false);
  if (config.is_object() && config.contains("partial_rotary_factor") &&
      config["partial_rotary_factor"].is_number() &&
      config["partial_rotary_factor"].get<double>() != 1.0) {
    throw WorkError(
        "RoPE with partial_rotary_factor cannot be undone; only keys after RoPE can be used");
  }
  for (int j = 0; j < model.head_dim / 2; ++j) {
    frequencies_.push_back(std::pow(model.rope_theta, -2.0 * j / model.head_dim));
  }
}

Rope::Pair Rope::pair(std::size_t j) const {
  const std::size_t half = frequencies_.size();
  return {static_cast<Eigen::Index>(halves_ ? j : 2 * j),
          static_cast<Eigen::Index>(halves_ ? j + half : 2 * j + 1), frequencies_[j]};
}

template <typename Number>
void Rope::turn_pairs(std::span<Number> key, double positions) const {
  const std::size_t half = frequencies_.size();
  for (std::size_t j = 0; j < half; ++j) {
    const std::size_t a = halves_ ? j : 2 * j;
    const std::size_t b = halves_ ? j + half : 2 * j + 1;
    const double angle = frequencies_[j] * positions;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const double x = static_cast<double>(key[a]), y = static_cast<double>(key[b]);
    key[a] = static_cast<Number>(x * cosine - y * sine);
    key[b] = static_cast<Number>(y * cosine + x * sine);
  }
}

template void Rope::turn_pairs(std::span<float>, double) const;
template void Rope::turn_pairs(std::span<double>, double) const;

}  // namespace kvloupe

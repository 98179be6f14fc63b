#include "analysis/metric/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "analysis/error.h"
#include "analysis/json_depth.h"
#include "analysis/metric/rope_scaling.h"

namespace kvloupe {

Rope::Rope(const ModelInfo& model)
    : halves_(model.rope_pairing == RopePairing::half),
      start_(static_cast<std::size_t>(model.rotary_start)) {
  using nlohmann::json;
  const int rotated = model.rotary_dim > 0 ? model.rotary_dim : model.head_dim - model.rotary_start;
  if (model.rope_scaling == kNoRotation) {
    frequencies_.assign(static_cast<std::size_t>(rotated / 2), 0.0);
    return;
  }
  if (!(model.rope_theta > 0.0)) {
    throw WorkError("the trace has no rope_theta: the rotation of RoPE cannot be undone");
  }
  if (rotated % 2 != 0)
    throw WorkError("the head dimension is odd: the rotation of RoPE cannot be undone");
  try {
    frequencies_ = rope_frequencies(
        model.rope_theta, rotated,
        parse_rope_scaling(model.rope_scaling.empty() ? "null" : model.rope_scaling));
  } catch (const std::invalid_argument& problem) {
    throw WorkError(fmt::format(
        "RoPE cannot be undone, so only keys after RoPE can be used: rope_scaling of the trace: {}",
        problem.what()));
  }
  if (model.rotary_dim > 0) return;
  if (is_deep_json(model.config)) return;  // no config.json
  const json config = json::parse(model.config, nullptr, false);
  if (config.is_object() && config.contains("partial_rotary_factor") &&
      config["partial_rotary_factor"].is_number() &&
      config["partial_rotary_factor"].get<double>() != 1.0) {
    throw WorkError(
        "RoPE with partial_rotary_factor cannot be undone, so only keys after RoPE can be used");
  }
}

Rope::Pair Rope::pair(std::size_t j) const {
  const std::size_t half = frequencies_.size();
  return {static_cast<Eigen::Index>(start_ + (halves_ ? j : 2 * j)),
          static_cast<Eigen::Index>(start_ + (halves_ ? j + half : 2 * j + 1)), frequencies_[j]};
}

template <typename Number>
void Rope::turn_pairs(std::span<Number> key, double positions) const {
  const std::size_t half = frequencies_.size();
  for (std::size_t j = 0; j < half; ++j) {
    const std::size_t a = start_ + (halves_ ? j : 2 * j);
    const std::size_t b = start_ + (halves_ ? j + half : 2 * j + 1);
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

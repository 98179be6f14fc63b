#include "analysis/math/rope.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/unknown.h"
#include "analysis/math/angle.h"
#include "analysis/math/rope_scaling.h"

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

namespace {
void append_turns(const Rope& rope, double position, std::vector<double>& turns) {
  for (std::size_t j = 0; j < rope.pairs(); ++j) {
    const double angle = rope.pair(j).frequency * position;
    turns.push_back(std::cos(angle));
    turns.push_back(std::sin(angle));
  }
}
}  // namespace

TurnedBack::TurnedBack(Rope rope) : rope_(std::move(rope)) {
  for (long step = 0; step < kSteps; ++step) {
    append_turns(rope_, static_cast<double>(step), steps_);
  }
}

template <typename Number>
void TurnedBack::turn_pairs(std::span<Number> row, long position, Cursor& cursor) const {
  const long first = position - position % kSteps;
  if (cursor.first != first) {
    cursor.first = first;
    cursor.turns.clear();
    append_turns(rope_, static_cast<double>(first), cursor.turns);
  }
  const std::size_t pairs = rope_.pairs();
  const double* const step = steps_.data() + static_cast<std::size_t>(position - first) * pairs * 2;
  const double* const base = cursor.turns.data();
  for (std::size_t j = 0; j < pairs; ++j) {
    const Rope::Pair pair = rope_.pair(j);
    const double cosine = base[2 * j] * step[2 * j] - base[2 * j + 1] * step[2 * j + 1];
    const double sine = base[2 * j + 1] * step[2 * j] + base[2 * j] * step[2 * j + 1];
    Number& a = row[static_cast<std::size_t>(pair.first)];
    Number& b = row[static_cast<std::size_t>(pair.second)];
    const double x = static_cast<double>(a), y = static_cast<double>(b);
    a = static_cast<Number>(x * cosine + y * sine);
    b = static_cast<Number>(y * cosine - x * sine);
  }
}

template void TurnedBack::turn_pairs(std::span<float>, long, Cursor&) const;
template void TurnedBack::turn_pairs(std::span<double>, long, Cursor&) const;

namespace {
constexpr int kMonotone = 3;  // cos falls from 0 to π

/// Whole keys turned back to before RoPE, [T,d]; row = position.
Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> turned_back(
    const MatrixView& keys, const Rope& rope) {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> result =
      keys.cast<double>();
  for (Eigen::Index i = 0; i < result.rows(); ++i) {
    rope.turn(std::span<double>(result.row(i).data(), static_cast<std::size_t>(result.cols())),
              -static_cast<double>(i));
  }
  return result;
}

template <typename Row>
Eigen::RowVector2d pair_of(const Row& row, const Rope::Pair& pair) {
  return {static_cast<double>(row[pair.first]), static_cast<double>(row[pair.second])};
}
}  // namespace

std::vector<PairRotation> pair_rotations(const MatrixView& keys, const ModelInfo& model,
                                         int distance, double least_cosine) {
  if (distance < 1) throw std::invalid_argument("pair_rotations: a distance below 1");
  const Rope rope(model);
  const auto before = turned_back(keys, rope);
  const double least_inside = std::cos(static_cast<double>(distance)) - 1e-12;
  std::vector<PairRotation> result(rope.pairs());
  for (Eigen::Index m = distance; m < keys.rows(); ++m) {
    const Eigen::Index n = m - distance;
    if (cosine(keys.row(m).cast<double>(), keys.row(n).cast<double>()) < least_cosine) continue;
    for (std::size_t j = 0; j < result.size(); ++j) {
      const Rope::Pair pair = rope.pair(j);
      const Eigen::RowVector2d a = pair_of(before.row(m), pair), b = pair_of(before.row(n), pair);
      const double norms = a.norm() * b.norm();
      if (norms == 0.0) continue;
      const double turned = a.dot(b) / norms;
      result[j].before += turned;
      result[j].after += pair_of(keys.row(m), pair).dot(pair_of(keys.row(n), pair)) /
                         norms;  // turning keeps norms
      result[j].inside += turned >= least_inside ? 1.0 : 0.0;
      ++result[j].neighbours;
    }
  }
  for (std::size_t j = 0; j < result.size(); ++j) {
    PairRotation& one = result[j];
    const auto count = static_cast<double>(one.neighbours);
    one.predicted = std::cos(distance * rope.pair(j).frequency);
    one.before = one.neighbours > 0 ? one.before / count : kUnknown;
    one.after = one.neighbours > 0 ? one.after / count : kUnknown;
    one.inside = one.neighbours > 0 && distance <= kMonotone ? one.inside / count : kUnknown;
  }
  return result;
}

}  // namespace kvloupe

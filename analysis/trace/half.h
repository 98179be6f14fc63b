#pragma once

#include <cstdint>
#include <span>

namespace kvloupe {

/// Numbers of this magnitude and above overflow an IEEE half.
inline constexpr float kHalfOverflow = 65520.0F;

/// IEEE binary16 bits of x, rounded to nearest, ties to even; overflow gives infinity.
std::uint16_t half_from_float(float x);
/// Exact.
float float_from_half(std::uint16_t bits);

/// The same for whole arrays of equal length.
void halves_from_floats(std::span<const float> from, std::span<std::uint16_t> to);
void floats_from_halves(std::span<const std::uint16_t> from, std::span<float> to);

/// Whether no number changes where all are stored as halves.
bool are_halves(std::span<const float> values);

}  // namespace kvloupe

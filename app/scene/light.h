#pragma once
// Mixing colours as light mixes.

#include <array>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// Amount of light in each channel, 0 to 1 (linear sRGB): the light that an eye or a lens adds up
/// if it cannot separate two neighbours. The numbers of a colour itself are not: grey of 128 has a
/// fifth of white's light, not half.
using Light = std::array<float, 3>;

Light light_of(Colour colour);
/// The opaque colour with this light; that of light_of(c) is c.
Colour colour_of(const Light& light);

}  // namespace kvloupe::figure

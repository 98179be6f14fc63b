#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// Colour maps of an amount: even steps look even, dark to light, safe for colour-blind readers.
enum class AmountMap : std::uint8_t { viridis, cividis, grey };

/// Throws UsageError naming the valid names.
AmountMap parse_amount_map(std::string_view name);
/// The name that parse_amount_map() reads.
std::string_view amount_map_name(AmountMap map);

/// Colour of an amount, 0 to 1 (clamped).
Colour amount_colour(AmountMap map, double share);

/// Colour of a signed amount, −1 to 1 (clamped): blue, white at 0, vermillion.
Colour signed_colour(double share);

/// The 256 colours of a map, from 0 to 1 (signed: from −1 to 1), for painting many pixels.
std::array<Colour, 256> amount_table(AmountMap map);
std::array<Colour, 256> signed_table();

/// CIE L* (0 to 100) of an sRGB colour, and the WCAG contrast ratio of two (1 to 21).
double lightness(Colour colour);
double contrast(Colour a, Colour b);

// --- mixing colours as light mixes

/// Amount of light in each channel, 0 to 1 (linear sRGB): what an eye or a lens that cannot tell
/// two neighbours apart adds up. The numbers of a colour itself are not: grey of 128 has a fifth of
/// white's light, not half.
using Light = std::array<float, 3>;

Light light_of(Colour colour);
/// The opaque colour with this light; that of light_of(c) is c.
Colour colour_of(const Light& light);

}  // namespace kvloupe::figure

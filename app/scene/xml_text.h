#pragma once

#include <string>
#include <string_view>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// For text and attributes of XML and HTML: & < > " as entities; characters that XML cannot hold,
/// and bytes that are not UTF-8, become U+FFFD.
std::string xml_text(std::string_view text);

/// Attributes of a `text` element in a script that the reader's program shapes: all of its font's
/// rules, and the width it has on paper, whatever font it finds. Empty for other text.
std::string shaping_attributes(const Text& text);

/// A length without trailing zeros, with at most this many decimals.
std::string xml_number(double value, int decimals = 3);

}  // namespace kvloupe::figure

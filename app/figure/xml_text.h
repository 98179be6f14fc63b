#pragma once

#include <string>
#include <string_view>

#include "app/figure/scene.h"

namespace kvloupe::figure {

/// For text and attributes of XML and HTML: & < > " as entities; characters XML cannot hold, and
/// what is no valid UTF-8, become U+FFFD.
std::string xml_text(std::string_view text);

/// Attributes of a `text` element in a script that the reader's program shapes: all of its font's
/// rules, and the width it has on paper, whatever font it finds. Empty for other text.
std::string shaping_attributes(const Text& text);

/// A length without trailing zeros, at most so many decimals.
std::string xml_number(double value, int decimals = 3);

}  // namespace kvloupe::figure

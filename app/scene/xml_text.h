#pragma once

#include <string>
#include <string_view>

namespace kvloupe::figure {

/// For text and attributes of XML and HTML: & < > " as entities; characters that XML cannot hold,
/// and bytes that are not UTF-8, become U+FFFD.
std::string xml_text(std::string_view text);

/// A length without trailing zeros, with at most this many decimals.
std::string xml_number(double value, int decimals = 3);

}  // namespace kvloupe::figure

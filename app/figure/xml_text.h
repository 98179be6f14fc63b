#pragma once

#include <string>
#include <string_view>

namespace kvloupe::figure {

/// For text and attributes of XML and HTML: & < > " as entities; characters XML cannot hold, and
/// what is no valid UTF-8, become U+FFFD.
std::string xml_text(std::string_view text);

/// A length without trailing zeros, at most so many decimals.
std::string xml_number(double value, int decimals = 3);

}  // namespace kvloupe::figure

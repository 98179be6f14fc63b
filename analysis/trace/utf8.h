#pragma once

#include <string>
#include <string_view>

namespace kvloupe {

/// `text` as valid UTF-8: NUL and bytes that are not UTF-8 become the four characters \xNN.
std::string escape_invalid_utf8(std::string_view text);

}  // namespace kvloupe

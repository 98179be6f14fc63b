#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvloupe {

/// A text as part of a file's name: its letters and digits, and one '-' for all that stands between
/// them; at most `most` bytes. "h2o+recent(10%)" becomes "h2o-recent-10".
std::string file_word(std::string_view text, std::size_t most = 40);

}  // namespace kvloupe

#pragma once

#include <string_view>
#include <vector>

namespace kvloupe {

/// "0-3,7" as {0, 1, 2, 3, 7}: ascending, without repetition. `what` names the indices in messages.
/// Throws UsageError for anything else, an empty text, or an index not below `count`.
std::vector<int> parse_index_list(std::string_view text, std::string_view what, int count);

}  // namespace kvloupe

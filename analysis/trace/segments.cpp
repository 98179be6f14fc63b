#include "analysis/trace/segments.h"

namespace kvloupe {

TokenRange segment_range(const TokenTable& tokens, std::string_view name) {
  TokenRange range;
  for (std::size_t i = 0; i < tokens.segment.size(); ++i) {
    if (tokens.segment_names[tokens.segment[i]] != name) continue;
    if (range.empty()) range.first = static_cast<int>(i);
    range.end = static_cast<int>(i) + 1;
  }
  return range;
}

}  // namespace kvloupe

#include "analysis/policy/stages.h"

namespace kvloupe {

Protection Protection::with(const Protection& other) const {
  return {std::max(sink_tokens, other.sink_tokens), std::max(recent, other.recent),
          std::max(window, other.window)};
}

std::vector<Fate> Protection::fates(std::span<const std::int32_t> tokens, int quota) const {
  const int n = static_cast<int>(tokens.size());
  std::vector<Fate> result(tokens.size(), Fate::evicted);
  int left = quota;
  int row = 0;
  for (; row < n && left > 0 && tokens[static_cast<std::size_t>(row)] < sink_tokens;
       ++row, --left) {
    result[static_cast<std::size_t>(row)] = Fate::sink;
  }
  const int suffix = std::max(recent, window);
  for (int back = 0; back < suffix && left > 0; ++back, --left) {
    const int last = n - 1 - back;
    if (last < row) break;
    result[static_cast<std::size_t>(last)] = back < window ? Fate::window : Fate::recent;
  }
  return result;
}

}  // namespace kvloupe

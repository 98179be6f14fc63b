#include "analysis/replay/reached_share.h"

#include <fmt/format.h>

namespace kvloupe {

std::string reached_share(const Replay& replay) {
  double entries = 0.0, seen = 0.0;
  for (const HeadReplay& head : replay.heads) {
    // A layer that reads another one's cache has no entries of its own.
    if (head.steps.empty() || head.shares_with >= 0) continue;
    const int last = static_cast<int>(head.steps.size()) - 1;
    entries += head.steps.back().retained;
    seen += replay.blocks[static_cast<std::size_t>(last)].end - replay.first_token(head, last);
  }
  return fmt::format("{:.1f} % of the entries", seen > 0.0 ? 100.0 * entries / seen : 100.0);
}

}  // namespace kvloupe

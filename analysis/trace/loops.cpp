#include "analysis/trace/loops.h"

#include <algorithm>

namespace kvloupe {

Loops find_loops(std::span<const std::int32_t> ids, int first) {
  const int end = static_cast<int>(ids.size());
  Loops found;
  found.of = std::max(end - first, 0);
  std::vector<Loop>& spans = found.spans;
  const auto inside_another = [&](const Loop& loop) {
    return std::any_of(spans.begin(), spans.end(), [&](const Loop& other) {
      return other.first <= loop.first && loop.first + loop.tokens <= other.first + other.tokens;
    });
  };
  // Ascending: what repeats after n tokens repeats after 2n as well, and then lies inside.
  for (int length = 1; length <= std::min(kLongestLoop, found.of / kLoopRepeats); ++length) {
    int begin = first;  // of the run of tokens that equal those `length` later
    for (int at = first; at + length <= end; ++at) {
      const auto here = static_cast<std::size_t>(at);
      if (at + length < end && ids[here] == ids[here + static_cast<std::size_t>(length)]) continue;
      const Loop loop{begin, length, at - begin + length};
      begin = at + 1;
      if (loop.tokens < std::max(kLoopTokens, kLoopRepeats * length)) continue;
      if (!inside_another(loop)) spans.push_back(loop);
    }
  }
  std::sort(spans.begin(), spans.end(), [](const Loop& a, const Loop& b) {
    return a.first != b.first ? a.first < b.first : a.length < b.length;
  });
  int covered = first;
  for (const Loop& loop : spans) {
    const int from = std::max(loop.first, covered);
    found.tokens += std::max(loop.first + loop.tokens - from, 0);
    covered = std::max(covered, loop.first + loop.tokens);
  }
  return found;
}

}  // namespace kvloupe

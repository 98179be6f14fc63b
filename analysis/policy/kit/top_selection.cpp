#include "analysis/policy/kit/top_selection.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvloupe {

namespace {
/// Unsigned integers in the order of the floats, zeros of both signs equal.
std::uint32_t ordered(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}
}  // namespace

Threshold mark_highest(std::span<const float> values, int count, Fate fate,
                       std::vector<Fate>& fates) {
  // Value above, row below: one comparison orders both, and of equal values the later row is
  // higher.
  std::vector<std::uint64_t> candidates;
  candidates.reserve(values.size());
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (fates[row] == Fate::evicted) {
      candidates.push_back(std::uint64_t{ordered(values[row])} << 32U | row);
    }
  }
  const std::size_t kept =
      std::min(static_cast<std::size_t>(std::max(count, 0)), candidates.size());
  if (kept == 0) return {};
  const auto border = candidates.begin() + static_cast<std::ptrdiff_t>(kept) - 1;
  std::nth_element(candidates.begin(), border, candidates.end(), std::greater<>());
  const std::uint64_t threshold = *border >> 32U;
  for (auto candidate = candidates.begin(); candidate <= border; ++candidate) {
    fates[static_cast<std::size_t>(*candidate & 0xFFFFFFFFU)] = fate;
  }
  const auto equal =
      std::count_if(candidates.begin(), candidates.end(),
                    [&](std::uint64_t candidate) { return candidate >> 32U == threshold; });
  return {values[static_cast<std::size_t>(*border & 0xFFFFFFFFU)],
          equal > 1 ? static_cast<int>(equal) : 0};
}

void TopSelection::select(const StepView& /*view*/, int /*head*/, int count, double /*rows_summed*/,
                          HeadDecision& decision) {
  const Threshold found = mark_highest(decision.scores, count, Fate::by_score, decision.fates);
  decision.threshold = found.value;
  decision.ties = found.ties;
}

}  // namespace kvloupe

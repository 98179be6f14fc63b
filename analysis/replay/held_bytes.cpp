#include "analysis/replay/held_bytes.h"

#include <fmt/format.h>

#include "analysis/trace/cache_bytes.h"

namespace kvloupe {

std::optional<HeldBytes> held_bytes(const Trace& trace, const Replay& replay) {
  HeldBytes bytes;
  bytes.states = cache_bytes(trace).states;
  int heads = 0;
  for (const HeadReplay& head : replay.heads) {
    if (head.shares_with >= 0 || head.steps.empty()) continue;
    const double entry = bytes_of_entry(trace.layer_model(head.layer));
    bytes.held += entry * head.steps.back().retained;
    bytes.full += entry * head.steps.back().seen;
    ++heads;
  }
  if (heads != trace.model().all_cache_heads()) return std::nullopt;
  return bytes;
}

std::string held_bytes_text(const HeldBytes& bytes) {
  constexpr double kMega = 1e6;
  return fmt::format("{:.3g} of {:.3g} MB in 16 bits{}", bytes.held / kMega, bytes.full / kMega,
                     bytes.states > 0.0
                         ? fmt::format(", and {:.3g} MB of fixed states", bytes.states / kMega)
                         : "");
}

}  // namespace kvloupe

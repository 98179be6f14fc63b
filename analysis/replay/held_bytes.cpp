#include "analysis/replay/held_bytes.h"

#include <fmt/format.h>

#include "analysis/metric/quantisation.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/record/stored_entries.h"
#include "analysis/trace/cache_bytes.h"

namespace kvloupe {

double head_bytes(const Trace& trace, const Replay& replay, const HeadReplay& head) {
  const ModelInfo& model = trace.layer_model(head.layer);
  const int entries = head.steps.back().retained;
  const auto quantisation = quantisation_of(parse_policy(replay.policy));
  if (!quantisation) return bytes_of_entry(model) * entries;
  return bytes_of_entries(model, entries, stored_entries(replay, head, *quantisation),
                          *quantisation);
}

std::optional<HeldBytes> held_bytes(const Trace& trace, const Replay& replay) {
  HeldBytes bytes{.states = cache_bytes(trace).states,
                  .fewer_bits = has_part(parse_policy(replay.policy), PartKind::storage)};
  int heads = 0;
  for (const HeadReplay& head : replay.heads) {
    if (head.shares_with >= 0 || head.steps.empty()) continue;
    const double entry = bytes_of_entry(trace.layer_model(head.layer));
    bytes.held += head_bytes(trace, replay, head);
    bytes.full += entry * head.steps.back().seen;
    ++heads;
  }
  if (heads != trace.model().all_cache_heads()) return std::nullopt;
  return bytes;
}

std::string held_bytes_text(const HeldBytes& bytes) {
  constexpr double kMega = 1e6;
  return fmt::format("{:.3g} of {:.3g} MB in 16 bits{}{}", bytes.held / kMega, bytes.full / kMega,
                     bytes.fewer_bits ? ", part of it in fewer" : "",
                     bytes.states > 0.0
                         ? fmt::format(", and {:.3g} MB of fixed states", bytes.states / kMega)
                         : "");
}

}  // namespace kvloupe

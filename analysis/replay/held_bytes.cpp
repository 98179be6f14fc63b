#include "analysis/replay/held_bytes.h"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/math/quantisation.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/trace/trace_size.h"

namespace kvloupe {

namespace {
/// The keys or the values of a cache.
class RoundedSide {
 public:
  RoundedSide(const std::vector<std::int32_t>& left, bool by_channel, int group)
      : left_(left), by_channel_(by_channel), group_(group), group_of_(left.size(), -1) {}

  void leave(std::int32_t token) {
    const std::int32_t group = group_of_[static_cast<std::size_t>(token)];
    if (token >= next_) return;
    --entries_;
    if (group >= 0 && --members_[static_cast<std::size_t>(group)] == 0) --groups_;
  }
  /// Rounds those of the `old` first entries that are not rounded yet, in whole groups.
  void round(int old, int step) {
    int due = std::max(old - entries_, 0);
    if (by_channel_) due -= due % group_;
    for (int i = 0; i < due; ++next_) {
      const std::int32_t gone = left_[static_cast<std::size_t>(next_)];
      if (gone >= 0 && gone <= step) continue;
      if (by_channel_ && i % group_ == 0) {
        members_.push_back(group_);
        ++groups_;
      }
      if (by_channel_) {
        group_of_[static_cast<std::size_t>(next_)] = static_cast<std::int32_t>(members_.size()) - 1;
      }
      ++i;
    }
    entries_ += due;
  }
  int entries() const { return entries_; }
  int groups() const { return groups_; }

 private:
  const std::vector<std::int32_t>& left_;  // [T]: the step at which each token left; −1: never
  bool by_channel_;
  int group_;
  std::vector<std::int32_t> group_of_;  // [T]
  std::vector<int> members_;            // of each group: how many are left
  std::int32_t next_ = 0;               // the first token that was not rounded
  int entries_ = 0, groups_ = 0;
};
}  // namespace

StoredEntries stored_entries(const Replay& replay, const HeadReplay& head,
                             const Quantisation& quantisation) {
  std::vector<std::vector<std::int32_t>> leaving(replay.blocks.size());
  for (std::size_t token = 0; token < head.evicted_at.size(); ++token) {
    const std::int32_t step = head.evicted_at[token];
    if (step >= 0) {
      leaving[static_cast<std::size_t>(step)].push_back(static_cast<std::int32_t>(token));
    }
  }
  RoundedSide keys(head.evicted_at, quantisation.keys_by_channel, quantisation.group);
  RoundedSide values(head.evicted_at, quantisation.values_by_channel, quantisation.group);
  for (std::size_t step = 0; step < head.steps.size(); ++step) {
    for (const std::int32_t token : leaving[step]) {
      keys.leave(token);
      values.leave(token);
    }
    const int old = std::max(head.steps[step].retained - quantisation.residual, 0);
    keys.round(old, static_cast<int>(step));
    values.round(old, static_cast<int>(step));
  }
  return {keys.entries(), keys.groups(), values.entries(), values.groups()};
}

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

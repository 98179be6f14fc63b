#include "app/window/state/policy_history.h"

#include <utility>

namespace kvloupe::window {

namespace {
constexpr std::size_t kMostUndoEntries = 200;
}

PolicyHistory::Entry PolicyHistory::entry_of(const WorkspaceState& state) {
  return {state.policy_a,    state.policy_b, state.budget,
          state.policy_b_on, state.block,    state.compression};
}

void PolicyHistory::follow(const WorkspaceState& state, bool held) {
  Entry entry = entry_of(state);
  if (!started_) {
    started_ = true;
    now_ = std::move(entry);
    return;
  }
  if (held || entry == now_) return;
  past_.push_back(std::move(now_));
  if (past_.size() > kMostUndoEntries) past_.erase(past_.begin());
  future_.clear();
  now_ = std::move(entry);
}

bool PolicyHistory::step(WorkspaceState& state, std::vector<Entry>& from, std::vector<Entry>& to) {
  if (from.empty()) return false;
  to.push_back(entry_of(state));
  now_ = std::move(from.back());
  from.pop_back();
  state.policy_a = now_.policy_a;
  state.policy_b = now_.policy_b;
  state.policy_b_on = now_.policy_b_on;
  state.budget = now_.budget;
  state.block = now_.block;
  state.compression = now_.compression;
  return true;
}

void PolicyHistory::clear() {
  started_ = false;
  past_.clear();
  future_.clear();
}

}  // namespace kvloupe::window

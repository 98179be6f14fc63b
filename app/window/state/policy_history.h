#pragma once

#include <vector>

#include "app/session/state.h"

namespace kvloupe::window {

/// Undo and redo of the inputs of a replay: both policies, the budget, the block, the compression.
/// One entry for one drag or one typed line, not one for each of its frames.
class PolicyHistory {
 public:
  /// Call once per frame; `held`: a control is still being dragged or typed into.
  void follow(const WorkspaceState& state, bool held);
  /// Steps back, or forth; false if there is nothing more.
  bool undo(WorkspaceState& state) { return step(state, past_, future_); }
  bool redo(WorkspaceState& state) { return step(state, future_, past_); }
  bool can_undo() const { return !past_.empty(); }
  bool can_redo() const { return !future_.empty(); }
  /// For another session: earlier entries have no meaning there.
  void clear();

 private:
  struct Entry {
    PolicySpec policy_a, policy_b;
    Budget budget;
    bool policy_b_on = false;
    int block = 0;
    std::optional<Compression> compression;
    bool operator==(const Entry&) const = default;
  };
  static Entry entry_of(const WorkspaceState& state);
  bool step(WorkspaceState& state, std::vector<Entry>& from, std::vector<Entry>& to);

  bool started_ = false;
  Entry now_;
  std::vector<Entry> past_, future_;  // the newest last
};

}  // namespace kvloupe::window

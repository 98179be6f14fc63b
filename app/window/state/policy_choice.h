#pragma once

#include <string>
#include <vector>

#include "analysis/policy/kit/spec.h"
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
  bool step(WorkspaceState& state, std::vector<ReplayInputs>& from, std::vector<ReplayInputs>& to);

  bool started_ = false;
  ReplayInputs now_;
  std::vector<ReplayInputs> past_, future_;  // the newest last
};

/// One variant of a policy in a paper, an author's code or a public library.
struct PolicyVariant {
  std::string part;   // the part of the policy that differs
  std::string where;  // "kvpress", "the original", "CriticalKV algorithm 2", ...
  std::string spec;   // the whole policy, canonical
};

/// The variants of a policy: for each of its parts the values that methods and codes use, with the
/// rest of the policy unchanged. Never the policy itself.
std::vector<PolicyVariant> variants_of(const PolicySpec& policy);

}  // namespace kvloupe::window

#include "app/window/state/policy_history.h"

#include <gtest/gtest.h>

namespace kvloupe::window {
namespace {

TEST(PolicyHistory, OneDragIsOneEntryAndRedoEndsWithANewChange) {
  WorkspaceState state;
  PolicyHistory history;
  history.follow(state, false);
  EXPECT_FALSE(history.undo(state));
  const std::string first = state.budget.text();
  for (const char* budget : {"26%", "30%", "40%"}) {
    state.budget = parse_budget(budget);
    history.follow(state, true);
  }
  history.follow(state, false);
  state.policy_a = parse_policy("snapkv");
  state.theme = Theme::dark;
  history.follow(state, false);

  EXPECT_TRUE(history.undo(state));
  EXPECT_EQ(state.policy_a.text(), "keydiff");
  EXPECT_EQ(state.budget.text(), "40%");
  EXPECT_EQ(state.theme, Theme::dark) << "no policy";
  history.follow(state, false);
  EXPECT_TRUE(history.undo(state));
  EXPECT_EQ(state.budget.text(), first);
  EXPECT_FALSE(history.undo(state));
  EXPECT_TRUE(history.redo(state));
  EXPECT_EQ(state.budget.text(), "40%");
  history.follow(state, false);
  EXPECT_TRUE(history.can_redo());
  state.policy_b_on = true;
  history.follow(state, false);
  EXPECT_FALSE(history.can_redo());
  EXPECT_TRUE(history.undo(state));
  EXPECT_FALSE(state.policy_b_on);
  EXPECT_EQ(state.budget.text(), "40%");
}

}  // namespace
}  // namespace kvloupe::window

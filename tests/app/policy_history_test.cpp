#include "app/window/state/policy_history.h"

#include <gtest/gtest.h>

namespace kvloupe::window {
namespace {

TEST(PolicyHistory, OneDragIsOneEntryAndRedoEndsWithANewChange) {
  WorkspaceState state;
  PolicyHistory history;
  history.follow(state, false);
  EXPECT_FALSE(history.undo(state));
  const std::string first = state.budget;
  for (const char* budget : {"26%", "30%", "40%"}) {
    state.budget = budget;
    history.follow(state, true);
  }
  history.follow(state, false);
  state.policy_a = "snapkv";
  state.theme = Theme::dark;
  history.follow(state, false);

  EXPECT_TRUE(history.undo(state));
  EXPECT_EQ(state.policy_a, "keydiff");
  EXPECT_EQ(state.budget, "40%");
  EXPECT_EQ(state.theme, Theme::dark) << "no policy";
  history.follow(state, false);
  EXPECT_TRUE(history.undo(state));
  EXPECT_EQ(state.budget, first);
  EXPECT_FALSE(history.undo(state));
  EXPECT_TRUE(history.redo(state));
  EXPECT_EQ(state.budget, "40%");
  history.follow(state, false);
  EXPECT_TRUE(history.can_redo());
  state.policy_b_on = true;
  history.follow(state, false);
  EXPECT_FALSE(history.can_redo());
  EXPECT_TRUE(history.undo(state));
  EXPECT_FALSE(state.policy_b_on);
  EXPECT_EQ(state.budget, "40%");
}

}  // namespace
}  // namespace kvloupe::window

#include "app/window/widgets/commands.h"
#include "app/session/view_catalog.h"
#include "app/window/state/layouts.h"
#include "app/window/tiles/state_range.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

struct CommandsTest : ::testing::Test {
  WorkspaceState after(Command command, WorkspaceState state) const {
    EXPECT_TRUE(change_state(command, state, range)) << keys_of(command);
    return state;
  }
  /// In the middle of everything, so that every command has something to change.
  static WorkspaceState middle() {
    WorkspaceState state = first_state();
    state.selection = {
        .layer = 1, .head = 1, .step = 2, .first_token = 2, .last_token = 9, .token = 4};
    state.tile_count = 2;
    state.active_tile = 1;
    state.tiles[1] = TileState{.view = "attention", .x_range = std::pair{0.0, 4.0}};
    state.scale = 1.25;
    return state;
  }

  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> trace = [this] {
    return test::open_synthetic_trace(folder / "trace.h5");
  }();
  StateRange range{trace.get(), 6, 2};
};

TEST_F(CommandsTest, EveryCommandOfTheStateChangesItAndNoOtherDoes) {
  int changed = 0;
  std::set<Command> seen;
  for (const CommandRow& row : commands()) {
    EXPECT_TRUE(seen.insert(row.command).second) << row.words << " stands twice";
    WorkspaceState two = middle(), three = middle();
    three.tile_count = 3;
    const WorkspaceState before_two = two, before_three = three;
    const bool is_own = change_state(row.command, two, range);
    EXPECT_EQ(change_state(row.command, three, range), is_own) << row.words;
    // "Two views" changes nothing where two are shown.
    EXPECT_EQ(two == before_two && three == before_three, !is_own) << row.words;
    changed += is_own;
  }
  EXPECT_GE(changed, 25);
}

TEST_F(CommandsTest, StepsMoveFromTheOneShown) {
  EXPECT_EQ(after(Command::step_forward, middle()).selection.step, 3);
  EXPECT_EQ(after(Command::step_back, middle()).selection.step, 1);
  EXPECT_EQ(after(Command::step_last, middle()).selection.step, 5);
  WorkspaceState none = middle();
  none.selection.step = -1;  // the last of the prompt is shown: 2
  EXPECT_EQ(after(Command::step_forward, none).selection.step, 3);
}

TEST_F(CommandsTest, ABudgetKeepsItsUnitAndMovesByOneEntryAtLeast) {
  WorkspaceState state = middle();
  const int prompt = trace->run().prompt_length;
  state.budget = parse_budget("2");
  EXPECT_EQ(after(Command::budget_up, state).budget.text(), "3");
  EXPECT_EQ(after(Command::budget_down, state).budget.text(), "1");
  state.budget = parse_budget("1");
  EXPECT_EQ(after(Command::budget_down, state).budget.text(), "1");
  state.budget = parse_budget(std::to_string(prompt));
  EXPECT_EQ(after(Command::budget_up, state).budget.text(), state.budget.text());
  state.budget = parse_budget("50%");
  EXPECT_THAT(after(Command::budget_up, state).budget.text(), ::testing::EndsWith("%"));
  range.trace = nullptr;
  EXPECT_EQ(after(Command::budget_up, state).budget.text(), "50%");
}

TEST_F(CommandsTest, FewerTilesTakeTheActiveOneAlong) {
  WorkspaceState state = middle();
  state.tile_count = 4;
  state.active_tile = 3;
  EXPECT_EQ(after(Command::tiles_2, state).active_tile, 1);
  EXPECT_EQ(after(Command::tiles_4, state).active_tile, 3);
}

TEST_F(CommandsTest, AViewShownAnewHasItsOwnSettingsAndTheTilesSide) {
  WorkspaceState state = middle();
  active_tile(state).side = PolicySide::b;
  show_view(state, "attention");
  EXPECT_TRUE(active_tile(state).x_range) << "the view shown already stays as it is";
  show_view(state, "filmstrip");
  EXPECT_FALSE(active_tile(state).x_range);
  EXPECT_EQ(active_tile(state).side, PolicySide::b);
}

TEST_F(CommandsTest, LayoutsAreTheOnesOfTheirCommands) {
  for (const Layout& layout : layouts()) {
    WorkspaceState wanted = middle();
    apply_layout(layout, wanted);
    EXPECT_TRUE(after(layout.command, middle()) == wanted) << layout.name;
  }
}

}  // namespace
}  // namespace kvloupe::window

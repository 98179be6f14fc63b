#include "app/session/session.h"
#include "analysis/policy/kit/spec.h"
#include "app/session/view_catalog.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

struct Session : testing::Test {
  std::filesystem::path file(const std::string& text) {
    const auto path = folder_.path() / "session.json";
    std::ofstream(path) << text;
    return path;
  }
  std::string problem(const std::string& fields) {
    return test::error_of<FileError>(
        [&] {
          read_session(
              file("{\"format\": \"kvloupe-session\", \"format_version\": 1" + fields + "}"));
        },
        "accepted");
  }
  test::TemporaryFolder folder_;
};

TEST_F(Session, WhatIsWrittenIsRead) {
  WorkspaceState state = default_state();
  state.trace = "/some where/träce.h5";
  state.selection = {3, 1, 5, 17, 99, 10, 200};
  state.policy_a = parse_policy("snapkv(window=16)+sinks(4)");
  state.policy_b_on = true;
  state.budget = parse_budget("12.5%");
  state.block = 64;
  state.compression = Compression::context_only;
  state.tiles[2].x_range = {{1.25, 77.5}};
  state.tiles[0].limits = {{1e-5, 0.3}};
  state.tile_count = 4;
  state.active_tile = 2;
  state.theme = Theme::dark;
  state.amounts = figure::AmountMap::cividis;
  state.tiles[1].side = PolicySide::b;
  state.token_colour = "difference";
  state.grid_measure = "head_error_l2";
  state.grid_scale = "relative";
  state.tiles[3].pinned = HeadIndex{7, 2};
  state.scale = 1.5;
  state.left_panel = false;
  const auto path = folder_.path() / "round.json";
  write_session(state, path);
  EXPECT_EQ(read_session(path), state);
  state.theme = Theme::high_contrast;
  state.patterns = false;
  write_session(state, path);
  EXPECT_EQ(read_session(path), state);
}

TEST_F(Session, AnEmptyOneIsTheFirstStart) {
  EXPECT_EQ(read_session(file(R"({"format": "kvloupe-session", "format_version": 1})")),
            default_state());
}

TEST_F(Session, WhatIsWrongIsNamed) {
  EXPECT_THAT(problem(R"(, "tile_count": 5)"), HasSubstr("tile_count must be between 1 and 4"));
  EXPECT_THAT(problem(R"(, "tile_count": "two")"), HasSubstr("tile_count must be a whole number"));
  EXPECT_THAT(problem(R"(, "colour": 1)"), HasSubstr("colour is not a field"));
  EXPECT_THAT(problem(R"(, "compression": "later")"), HasSubstr("later"));
  EXPECT_THAT(problem(R"(, "theme": "pink")"), HasSubstr("pink"));
  EXPECT_THAT(problem(R"(, "grid_scale": "square")"), HasSubstr("square"));
  EXPECT_THAT(problem(R"(, "tiles": [{"view": "filmstrip", "pinned": {"layer": -1}}])"),
              HasSubstr("pinned.layer must be between"));
  EXPECT_THAT(problem(R"(, "patterns": "dots")"), HasSubstr("patterns must be true or false"));
  EXPECT_THAT(problem(R"(, "policy_a": "keydif")"), HasSubstr("keydif"));
  EXPECT_THAT(problem(R"(, "budget": "0")"), HasSubstr("budget is not valid"));
  EXPECT_THAT(problem(R"(, "budget": "12MB")"), HasSubstr("budget is not valid"));
  EXPECT_THAT(problem(R"(, "budget": "25%bytes")"), HasSubstr("bytes are not known here"));
  EXPECT_THAT(problem(R"(, "tiles": [{"view": "movie"}])"),
              HasSubstr("tiles[0].view \"movie\" is not a view"));
  EXPECT_THAT(problem(R"(, "tiles": [{"view": "similarity", "choices": {"of": "dreams"}}])"),
              HasSubstr("tiles[0].choices are not valid"));
  EXPECT_THAT(problem(R"(, "tiles": [{"view": "pca", "x_range": [1, 1]}])"),
              HasSubstr("tiles[0].x_range"));
  EXPECT_THAT(problem(R"(, "selection": {"layer": -1})"), HasSubstr("selection.layer"));
  EXPECT_THAT(problem(R"(, "selection": {"layer": 1e40})"), HasSubstr("selection.layer"));
  EXPECT_THAT(problem(R"(, "scale": 100)"), HasSubstr("scale is out of range"));
  EXPECT_THAT(problem(R"(, "grid_metric": "beauty")"), HasSubstr("grid_metric"));
}

TEST_F(Session, ForeignTruncatedNewerAndMissingFilesAreRefused) {
  EXPECT_THROW(read_session(folder_.path() / "none.json"), FileError);
  EXPECT_THROW(read_session(folder_.path()), FileError);
  EXPECT_THROW(read_session(file("")), FileError);
  EXPECT_THROW(read_session(file("[1, 2]")), FileError);
  EXPECT_THROW(read_session(file(R"({"format": "kvloupe-session", "format_)")), FileError);
  EXPECT_THROW(read_session(file(R"({"format": "other", "format_version": 1})")), FileError);
  EXPECT_THROW(read_session(file(R"({"format": "kvloupe-session"})")), FileError);
  EXPECT_THROW(read_session(file(R"({"format": "kvloupe-session", "format_version": 2})")),
               FileError);
  EXPECT_THROW(write_session(default_state(), folder_.path() / "no folder" / "s.json"), FileError);
}

}  // namespace
}  // namespace kvloupe::window

// The line the export sheet copies makes the same file.

#include "app/request/command_line.h"
#include "app/request/figure_service.h"
#include "app/session/view_catalog.h"
#include "tests/app/cli_call.h"
#include "tests/app/shell_words.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

/// The line for what a tile asks for.
std::string command_of(const WorkspaceState& state, const TileState& tile,
                       const request::FigureInputs& inputs, const figure::FileOptions& options,
                       const figure::PageSize& page, const std::string& path) {
  const figure::FigureInfo& figure = *find_view(tile.view);
  return request::command_line(
      figure, request::make_request(figure, settings_of(state, tile), inputs), options, page, path);
}

TEST(ShellWord, IsQuotedOnlyWhereItHasToBe) {
  EXPECT_EQ(request::shell_word("out/träce.h5"), "out/träce.h5");
  EXPECT_EQ(request::shell_word("h2o+recent(50%)"), "'h2o+recent(50%)'");
  EXPECT_EQ(request::shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(request::shell_word(""), "''");
}

TEST(ExportCommand, WritesTheFileTheWindowWrites) {
  test::TemporaryFolder folder;
  const auto trace_file = folder.path() / "a trace.h5";
  test::write_synthetic_trace(trace_file);
  WorkspaceState state = default_state();
  state.trace = trace_file.string();
  state.policy_a = parse_policy("h2o+recent(50%)");
  state.budget = parse_budget("20%");
  state.selection.layer = 1;
  state.selection.step = 2;
  TileState tile{.view = "filmstrip", .x_range = {{8.0, 40.0}}};
  figure::FileOptions options{.size = figure::parse_page_size("120x70mm"),
                              .text = 9.0,
                              .theme = figure::Theme::dark,
                              .patterns = true,
                              .title = true,
                              .legend = false,
                              .x_range = tile.x_range};

  // As the window makes it.
  const request::FigureMaker maker(std::make_shared<const Trace>(trace_file));
  request::FigureSettings settings{
      .layer = 1, .head = 0, .step = 2, .policy = state.policy_a, .budget = state.budget};
  const figure::FigureInfo& figure = *find_view(tile.view);
  const figure::TextMetrics fonts;
  const std::string expected =
      figure::file_of(figure, maker.make(figure, settings, test::unwatched),
                      figure::FileFormat::svg, options, fonts);

  const auto target = folder.path() / "it's a figure.svg";
  const std::string line =
      command_of(state, tile, maker.inputs(), options, *options.size, target.string());
  const std::vector<std::string> words = test::shell_words(line);
  ASSERT_EQ(test::call({words.begin() + 1, words.end()}).code, 0) << line;
  EXPECT_EQ(test::file_text(target), expected);
  EXPECT_THAT(line, Not(HasSubstr("--policy-b"))) << "B is off";
}

TEST(ExportCommand, AViewOfPolicyBNamesItAsThePolicy) {
  WorkspaceState state = default_state();
  state.policy_b_on = true;
  state.policy_b = parse_policy("tova");
  const TileState tile{.view = "filmstrip", .side = PolicySide::b};
  const std::string line = command_of(state, tile, {}, {}, {100.0, 100.0}, "x.pdf");
  EXPECT_THAT(line, HasSubstr("--policy tova"));
  EXPECT_THAT(line, Not(HasSubstr("--policy-b")));
}

}  // namespace
}  // namespace kvloupe::window

// The window driven for real: the workspace on an OpenGL surface, by mouse and keys.

#include <imgui_internal.h>

#include "analysis/base/text/utf8.h"
#include "analysis/math/sink.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/view_catalog.h"
#include "app/window/sheets/command_palette.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"
#include "tests/app/window_test.h"
#include "tests/figure/made_figures.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using window::TileState;

struct Window : WindowTest {
  void prepare() override {
    start();
    state() = window::default_state();  // one film strip
  }

  std::string trace() {
    const auto path = folder_.path() / "small.h5";
    if (!std::filesystem::exists(path)) {
      write_synthetic_trace(path, {.layers = 3, .clusters = 4});
    }
    return path.string();
  }
  void open_trace() {
    open_and_settle(trace());
    ASSERT_EQ(w().notice, "");
  }
  void show(const char* view) {
    state().tiles[0] = TileState{.view = view};
    driver().settle();
  }
  /// A place in the first tile's main plot, as shares of its sides, in pixels.
  std::pair<float, float> in_plot(double share_x, double share_y) {
    const auto scene = w().tiles[0].scene();
    const figure::Rect plot = scene->axes.at(0).plot;
    return on_screen({plot.x + share_x * plot.width, plot.y + share_y * plot.height});
  }

  /// The numbers of the grid, head by head.
  std::vector<double> grid() {
    std::vector<double> values;
    const auto made = w().grid.figure();
    for (const CsvRow& row : made ? csv_rows(*made->figure) : std::vector<CsvRow>()) {
      for (const auto& [column, cell] : row) {
        if (column != "policy" && column != "layer" && column != "head" && column != "read")
          values.push_back(csv_number(row, column));
      }
    }
    return values;
  }
};

/// With the trace open.
struct OpenWindow : Window {
  void prepare() override {
    Window::prepare();
    open_trace();
  }
};

TEST_F(Window, ANewWindowShowsWhereAHeadLooksBesideWhatIsKept) {
  start();
  open_trace();
  EXPECT_EQ(state(), [&] {
    window::WorkspaceState first = window::first_state();
    first.trace = state().trace;
    first.selection = {.layer = 1};  // of three
    return first;
  }());
  ASSERT_EQ(state().tile_count, 2);
  for (std::size_t tile : {0U, 1U}) {
    EXPECT_EQ(w().tiles[tile].error(), "");
    ASSERT_NE(w().tiles[tile].scene(), nullptr);
  }
  EXPECT_EQ(state().tiles[0].view, "attention");
  EXPECT_EQ(state().tiles[1].view, "filmstrip");
}

TEST_F(OpenWindow, TheGridShowsTheSinksWhateverThePolicy) {
  state().grid_measure = "sinks";
  driver().settle();
  const Trace& trace = *w().results.trace();
  const Matrix means =
      mean_of_query_heads(sink_strengths(trace, 0, unwatched), trace.model().num_kv_heads);
  const std::vector<double> shown = grid();
  ASSERT_EQ(shown.size(), static_cast<std::size_t>(means.size()));
  for (Eigen::Index i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(shown[i], means(i / means.cols(), i % means.cols()), 1e-6) << i;
  }
  const auto scene = w().grid.scene();
  state().policy_a = parse_policy("full");
  driver().settle();
  EXPECT_EQ(w().grid.scene(), scene) << "nothing is computed again";
}

TEST_F(OpenWindow, TheGridAndTheReadoutsShowTheMeasuresOfTheStepInHand) {
  ReplayRequest request{.policy = parse_policy("h2o+kvmerger"), .budget = 20};
  const Replay whole = replay(*w().results.trace(), request, unwatched);
  state().policy_a = parse_policy("h2o+kvmerger");
  state().budget = parse_budget("20");
  for (const int step : {2, 1}) {
    state().selection.step = step;
    for (const char* name : {"retained_mass", "perturbation_l1", "log_pseudo_determinant"}) {
      const Measure& measure = require_measure(name);
      state().grid_measure = name;
      driver().settle();
      const std::vector<double> values = grid();
      ASSERT_EQ(values.size(), whole.heads.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const StepRecord& record = whole.heads[i].steps[step];
        EXPECT_FLOAT_EQ(static_cast<float>(values[i]),
                        static_cast<float>(measure_at(measure, record)))
            << name;
      }
      const auto shown = w().shown.measured(0);
      ASSERT_NE(shown, nullptr);
      const StepRecord& record =
          whole.find(state().selection.layer, state().selection.head)->steps[step];
      EXPECT_EQ(measure_at(measure, *shown), measure_at(measure, record)) << name;
      EXPECT_EQ(measure_at(require_measure("rank"), *shown),
                measure_at(require_measure("rank"), record));
    }
  }
  EXPECT_EQ(w().shown.measured(1), nullptr) << "policy B is off";
}

TEST_F(Window, WithNoTraceSaysWhatToDo) {
  driver().settle();
  EXPECT_GT(WindowDriver::colours(driver().picture()), 10);
  driver().key(GLFW_KEY_O, true);
  EXPECT_TRUE(w().sheets.file_panel.is_open());
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.file_panel.is_open());
  driver().key(GLFW_KEY_Q, true);
  EXPECT_TRUE(driver().asked_to_close);
}

TEST_F(OpenWindow, OpensATraceAndSelectsHeadsByKeysAndMouse) {
  EXPECT_EQ(state().selection.layer, 1);
  const auto before = driver().picture();
  EXPECT_GT(WindowDriver::colours(before), 100);
  driver().key(GLFW_KEY_DOWN).key(GLFW_KEY_RIGHT).settle();
  EXPECT_EQ(state().selection.layer, 2);
  EXPECT_EQ(state().selection.head, 1);
  EXPECT_GT(WindowDriver::difference(before, driver().picture(), 270, 40, 980, 600), 0.01);
  for (int i = 0; i < 9; ++i) driver().key(GLFW_KEY_DOWN);
  for (int i = 0; i < 9; ++i) driver().key(GLFW_KEY_LEFT);
  EXPECT_EQ(state().selection.layer, 2) << "stays inside the trace";
  EXPECT_EQ(state().selection.head, 0);
}

TEST_F(OpenWindow, EveryViewDrawsInBothThemesAndAnyTiling) {
  state().policy_b_on = true;
  ASSERT_EQ(state().theme, window::Theme::light);
  for (const window::Theme theme : {window::Theme::dark, window::Theme::light}) {
    state().theme = theme;
    for (const figure::FigureInfo& view : figure::figure_catalog()) {
      show(view.name.c_str());
      if (const std::string why = window::why_not(view, w().results, w().state); !why.empty()) {
        EXPECT_EQ(w().tiles[0].error(), why) << view.name;
        continue;
      }
      EXPECT_EQ(w().tiles[0].error(), "") << view.name;
      ASSERT_NE(w().tiles[0].scene(), nullptr) << view.name;
      EXPECT_FALSE(w().tiles[0].scene()->items.empty()) << view.name;
      const figure::Colour paper = w().tiles[0].scene()->background;
      EXPECT_EQ(paper.red + paper.green + paper.blue < 3 * 128, theme == window::Theme::dark)
          << view.name;
    }
  }
  show("filmstrip");
  for (const char* count : {"2", "3", "4"}) {
    driver().type(count).settle();
    EXPECT_EQ(state().tile_count, *count - '0');
    for (int i = 0; i < state().tile_count; ++i) {
      EXPECT_NE(w().tiles[i].scene(), nullptr) << i;
    }
  }
  const auto light = driver().picture();
  driver().type("t").settle();
  EXPECT_EQ(state().theme, window::Theme::dark);
  EXPECT_GT(WindowDriver::difference(light, driver().picture(), 0, 0, 1280, 800), 0.8);
}

TEST_F(OpenWindow, InHighContrastFatesHavePatternsWhichPSwitchesOff) {
  state().policy_a = parse_policy("h2o+recent(40%)");
  show("filmstrip");
  driver().type("t").type("t").settle();
  EXPECT_EQ(state().theme, window::Theme::high_contrast);
  EXPECT_EQ(w().tiles[0].scene()->background, (figure::Colour{0, 0, 0}));
  EXPECT_TRUE(window::shows_patterns(w().state));
  const auto with = driver().picture();
  driver().type("p").settle();
  EXPECT_FALSE(window::shows_patterns(w().state));
  const auto without = driver().picture();
  // Both in the strip and in the words below it.
  EXPECT_GT(WindowDriver::difference(with, without, 270, 40, 980, 500), 0.002);
  EXPECT_GT(WindowDriver::difference(with, without, 0, 600, 1280, 800), 0.001);
  driver().type("t");
  EXPECT_EQ(state().theme, window::Theme::light);
  EXPECT_FALSE(window::shows_patterns(w().state)) << "chosen for every theme";
}

TEST_F(OpenWindow, WithReducedMotionSpaceGoesOneStepOn) {
  driver().key(GLFW_KEY_HOME).type(" ");
  EXPECT_TRUE(w().playing);
  driver().type("n");
  EXPECT_TRUE(w().reduced_motion);
  EXPECT_FALSE(w().playing);
  const int step = w().shown.step();
  driver().type(" ");
  EXPECT_EQ(w().shown.step(), step + 1);
  EXPECT_FALSE(w().playing);
  for (int i = 0; i < 120; ++i) driver().frame();  // two seconds
  EXPECT_EQ(w().shown.step(), step + 1) << "nothing moves by itself";
  driver().key(GLFW_KEY_END).type(" ");
  EXPECT_EQ(w().shown.step(), 0);
  driver().type("n").type(" ");
  EXPECT_TRUE(w().playing);
}

TEST_F(Window, WhatOneNeedsToSeeIsKeptForTheNextWindow) {
  window::Workspace::Host host{.preferences = folder_.path() / "preferences.json"};
  start(1280, 800, host);
  driver().type("t").type("t").type("p").type("n").frames(2);
  start(1280, 800, host);
  EXPECT_EQ(state().theme, window::Theme::high_contrast);
  EXPECT_EQ(state().patterns, std::optional<bool>(false));
  EXPECT_TRUE(w().reduced_motion);
}

TEST_F(Window, TheSizeIsChangedByTheKeypadTooAndSaidInPercent) {
  driver().key(GLFW_KEY_KP_ADD, true);
  EXPECT_DOUBLE_EQ(state().scale, 1.1);
  EXPECT_EQ(w().notice, "Size 110 %");
  driver().key(GLFW_KEY_EQUAL, true);
  EXPECT_DOUBLE_EQ(state().scale, 1.2);
  driver().key(GLFW_KEY_EQUAL, true, true);  // where + is Shift =
  EXPECT_DOUBLE_EQ(state().scale, 1.3);
  driver().key(GLFW_KEY_KP_SUBTRACT, true).key(GLFW_KEY_KP_0, true);
  EXPECT_EQ(w().notice, "Size 100 %");
}

TEST_F(OpenWindow, WhatIsTypedInAnOpenListChoosesItsLineAndNothingElse) {
  state().policy_a = parse_policy("keydiff");
  driver().settle();
  driver().press_on("##policies", {"A", "##score"}).frames(3);
  driver().type("snapkv").frames(3);
  EXPECT_FALSE(w().reduced_motion) << "n is a key of the window";
  EXPECT_EQ(state().patterns, std::nullopt);
  EXPECT_FALSE(w().sheets.palette.is_open());
  driver().key(GLFW_KEY_ENTER).settle();
  EXPECT_EQ(state().policy_a.text(), "snapkv(pool=max,range=candidates)") << "the first so named";
  // Esc closes the list alone.
  driver().key(GLFW_KEY_N, true).settle();
  driver().press_on("##capture", {"##models"}).frames(3);
  ASSERT_TRUE(window::list_is_open());
  driver().key(GLFW_KEY_ESCAPE).frames(3);
  EXPECT_FALSE(window::list_is_open());
  EXPECT_TRUE(w().sheets.capture_panel.is_open());
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.capture_panel.is_open());
}

TEST_F(OpenWindow, TextToFindIsReplacedWhereTheFieldOpensAgain) {
  for (const char* text : {"drawer", "mail"}) {
    driver().key(GLFW_KEY_F, true).frames(4);
    driver().type(text).frames(2);
    EXPECT_EQ(w().text_panel().search.query, text);
  }
}

TEST_F(OpenWindow, ATooltipWaitsForARestAndLeavesTheButtonsOfASheetInSight) {
  driver().key(GLFW_KEY_N, true, true).settle();
  ASSERT_TRUE(driver().point_at("##study", {"##results"}));
  const auto tooltip = [] {
    const ImGuiWindow* window = ImGui::FindWindowByName("##Tooltip_00");
    return window != nullptr && window->WasActive ? window->Rect() : ImRect();
  };
  const float y = ImGui::GetIO().MousePos.y;
  driver().move(2, 700).frames(2);
  driver().move(640, y).frames(3);
  EXPECT_EQ(tooltip().GetHeight(), 0);
  driver().frames(40);
  EXPECT_GT(tooltip().GetHeight(), 0);
  EXPECT_LT(tooltip().Max.y, y) << "above: the buttons are below";
}

TEST_F(Window, EveryLetterOfTheListsIsInTheFonts) {
  driver().frame();
  std::string texts;
  for (const figure::OverviewMeasure& one : figure::overview_measures())
    texts += one.title() + one.help;
  for (const PolicyEntry& one : policy_catalog()) texts += one.summary + one.formula;
  for (std::size_t at = 0; at < texts.size();) {
    const char32_t character = first_character(std::string_view(texts).substr(at));
    at += character_length(std::string_view(texts).substr(at));
    if (character <= ' ') continue;
    EXPECT_NE(w().fonts.text->FindGlyphNoFallback(static_cast<ImWchar>(character)), nullptr)
        << "U+" << std::hex << static_cast<unsigned>(character);
  }
}

TEST_F(Window, NumbersAreNotBrokenBehindTheirPoint) {
  driver().frame();
  driver().surface.begin_frame();
  const std::string text = "a trace of 6.2 MB and 0.81, 12 more\nend ";
  for (float width = 1; width < 400; width += 3) {
    std::string lines = window::broken_at_spaces(text, width);
    EXPECT_EQ(lines.find(".\n"), std::string::npos);
    std::replace(lines.begin(), lines.end(), '\n', ' ');
    EXPECT_EQ(lines, "a trace of 6.2 MB and 0.81, 12 more end ") << "nothing is lost";
  }
  EXPECT_EQ(window::broken_at_spaces(text, 1e6F), text);
  driver().surface.drop_frame();
}

TEST_F(OpenWindow, ASecondTraceIsSaidToBeInTheListOfRecentOnes) {
  w().set_aside({"/traces/b.h5", "/traces/c.h5"});
  EXPECT_THAT(w().notice, HasSubstr("Open recent: b.h5, c.h5"));
}

TEST_F(Window, AClosedLoopRunOpenedBesideTheFullOneShowsHowFarTheyAreApart) {
  SyntheticTraceOptions options{.layers = 3, .clusters = 4};
  write_synthetic_closed_loop(folder_.path() / "closed.h5", options, "h2o", 24);
  open_trace();
  show("drift");
  EXPECT_THAT(w().tiles[0].error(), HasSubstr("Ctrl R"));
  EXPECT_EQ(w().results.agreement(), nullptr);
  open_file(folder_.path() / "closed.h5");
  EXPECT_EQ(w().tiles[0].error(), "");
  ASSERT_NE(w().tiles[0].figure(), nullptr);
  EXPECT_THAT(w().tiles[0].figure()->figure->caption(), HasSubstr("h2o with N = 24"));
  EXPECT_EQ(w().results.agreement(), nullptr) << "the open trace is the closed loop itself";
  open_file(trace());
  EXPECT_EQ(w().tiles[0].error(), "");
  state().policy_a = parse_policy("h2o");
  state().budget = parse_budget("24");
  state().selection.layer = 0;
  driver().settle();
  ASSERT_NE(w().results.agreement(), nullptr);
  EXPECT_EQ(*w().results.agreement(), 1.0);
  driver().key(GLFW_KEY_DOWN).settle();
  ASSERT_NE(w().results.agreement(), nullptr);
  EXPECT_LT(*w().results.agreement(), 1.0);
  state().budget = parse_budget("25");
  driver().settle();
  EXPECT_EQ(w().results.agreement(), nullptr) << "ran with another budget";
}

TEST_F(Window, ResultsOfAnEvaluationOpenAloneAndBesideATrace) {
  const auto needle = write_synthetic_evaluation(folder_.path() / "needle.json");
  open_file(needle);
  EXPECT_EQ(w().notice, "");
  ASSERT_EQ(state().tile_count, 2);
  EXPECT_EQ(state().tiles[0].view, "needle-grid");
  EXPECT_EQ(state().tiles[1].view, "perplexity-budget");
  for (const int i : {0, 1}) {
    EXPECT_EQ(w().tiles[i].error(), "");
    EXPECT_NE(w().tiles[i].scene(), nullptr);
  }
  show("layer-drift");
  EXPECT_EQ(w().tiles[0].error(), "");
  EXPECT_NE(w().tiles[0].scene(), nullptr);
  show("filmstrip");
  EXPECT_THAT(w().tiles[0].error(), HasSubstr("This view shows a trace"));
  open_trace();
  EXPECT_EQ(w().tiles[0].error(), "");
  open_file(write_synthetic_evaluation(folder_.path() / "loss.json", false).string());
  EXPECT_EQ(state().tiles[state().active_tile].view, "perplexity-budget");
  EXPECT_NE(w().results.trace(), nullptr);
  open_file(write_synthetic_rescue(folder_.path() / "rescue.json").string());
  EXPECT_EQ(state().tiles[state().active_tile].view, "rescue");
  EXPECT_EQ(w().tiles[state().active_tile].error(), "");
  std::ofstream(folder_.path() / "cut.json") << R"({"format":"kvloupe-eval","runs":[)";
  open_file(folder_.path() / "cut.json");
  EXPECT_THAT(w().notice, HasSubstr("not valid JSON"));
}

TEST_F(OpenWindow, ScrubsAndPlaysSteps) {
  const int prompt_step = w().shown.step();
  EXPECT_EQ(prompt_step, 2);
  driver().type(".");
  EXPECT_EQ(w().shown.step(), 3);
  driver().type(",").type(",");
  EXPECT_EQ(w().shown.step(), 1);
  driver().key(GLFW_KEY_END);
  EXPECT_EQ(w().shown.step(), w().shown.step_count() - 1);
  driver().key(GLFW_KEY_HOME);
  EXPECT_EQ(w().shown.step(), 0);
  driver().type(" ");
  EXPECT_TRUE(w().playing);
  for (int i = 0; i < 2000 && w().shown.step() < 2; ++i) driver().frame();
  EXPECT_GE(w().shown.step(), 2);
  driver().type(" ");
  EXPECT_FALSE(w().playing);
}

TEST_F(OpenWindow, PolicyAndBudgetChangeWhatIsKept) {
  const auto kept = [&] {
    const HeadReplay* head = w().shown.head(0);
    return head ? head->steps.at(w().shown.step()).retained : -1;
  };
  EXPECT_EQ(kept(), 24);  // 25 % of 96
  for (int i = 0; i < 3; ++i) driver().type("]");
  driver().settle();
  const int larger = kept();
  EXPECT_GT(larger, 24);
  const auto before = w().shown.head(0)->evicted_at;

  driver().type("/");  // puts the cursor into the spec line of A
  driver().frames(2);
  driver().key(GLFW_KEY_A, true).type("sink(4)").settle();
  EXPECT_EQ(state().policy_a.text(), "sink");
  EXPECT_EQ(w().editors.a.error(), "");
  EXPECT_EQ(kept(), larger);
  EXPECT_NE(w().shown.head(0)->evicted_at, before);

  driver().key(GLFW_KEY_A, true).type("sonk(4)").frames(3);
  EXPECT_THAT(w().editors.a.error(), HasSubstr("sonk"));
  EXPECT_EQ(state().policy_a.text(), "sink") << "a wrong line changes nothing";
  driver().key(GLFW_KEY_ESCAPE).type("b").settle();
  EXPECT_TRUE(state().policy_b_on);
  EXPECT_NE(w().shown.head(1), nullptr);
}

TEST_F(OpenWindow, AModifierIsFoundByTypingAndThoseInUseAreInSight) {
  driver().press_on("##policies", {"A", "+ modifier…"}).frames(2);
  ASSERT_TRUE(w().sheets.palette.is_open());
  driver().type("recent").frames(2);
  driver().key(GLFW_KEY_ENTER).frames(3);
  EXPECT_EQ(state().policy_a.text(), "keydiff+recent");
  driver().press_on("##policies", {"A", "+ modifier…"});
  choose("recent").frames(3);
  EXPECT_EQ(state().policy_a.text().find("recent"), state().policy_a.text().rfind("recent"))
      << "what the policy has cannot be chosen again";
  driver().key(GLFW_KEY_ESCAPE);
  state().policy_a = parse_policy("keydiff+recent(10%)");
  driver().settle();
  driver().press_on("##policies", {"A", "recent", "+ recent"}).frames(3);
  EXPECT_EQ(state().policy_a.text(), "keydiff") << "a click on one in use leaves it out";
}

TEST_F(OpenWindow, AModifierThatNeedsMoreIsTypedOn) {
  const std::string before = state().policy_a.text();
  const auto add = [&](const std::string& name) {
    driver().press_on("##policies", {"A", "+ modifier…"});
    choose("+ " + name).frames(3);
  };
  for (const std::string name : {"dms", "headbudgets"}) {
    add(name);
    EXPECT_THAT(w().editors.a.error(), HasSubstr(name + " needs "));
    EXPECT_EQ(state().policy_a.text(), before) << "nothing changes before the line is whole";
    driver().key(GLFW_KEY_ESCAPE).frames(3);
  }
  add("dms");
  driver().key(GLFW_KEY_A, true).type("keydiff+dms(-0.5)").settle();
  EXPECT_EQ(w().editors.a.error(), "");
  EXPECT_EQ(state().policy_a.text(), "keydiff+dms(-0.5)");
}

TEST_F(OpenWindow, ChangesOfPolicyAreUndoneAndRedone) {
  const std::string before = state().budget.text();
  driver().type("]");
  const std::string after = state().budget.text();
  ASSERT_NE(after, before);
  driver().key(GLFW_KEY_Z, true);
  EXPECT_EQ(state().budget.text(), before);
  driver().key(GLFW_KEY_Z, true, true);
  EXPECT_EQ(state().budget.text(), after);
}

TEST_F(OpenWindow, ZoomsPansAndResetsMaps) {
  show("similarity");
  const auto [x, y] = in_plot(0.25, 0.75);
  const auto whole = driver().picture();
  const figure::Axes& axes = w().tiles[0].scene()->axes[0];
  const double before = axes.to_data({axes.plot.x + 0.25 * axes.plot.width, 0}).x;
  driver().wheel(x, y, 3).settle();
  ASSERT_TRUE(state().tiles[0].x_range.has_value());
  const auto range = *state().tiles[0].x_range;
  EXPECT_LT(range.second - range.first, 60);
  EXPECT_NEAR(range.first + 0.25 * (range.second - range.first), before, 1.0)
      << "zooms at the pointer";
  EXPECT_GT(WindowDriver::difference(whole, driver().picture(), 270, 40, 980, 600), 0.1);

  driver().drag(x, y, x - 40, y, 8);
  EXPECT_GT(state().tiles[0].x_range->first, range.first);
  for (int i = 0; i < 5; ++i) driver().drag(x, y, x + 400, y, 2);
  EXPECT_GE(state().tiles[0].x_range->first, -1e-9) << "never leaves the data";
  driver().double_click(x, y);
  EXPECT_FALSE(state().tiles[0].x_range.has_value());
  for (int i = 0; i < 4; ++i) driver().wheel(x, y, 10);
  EXPECT_GE(state().tiles[0].x_range->second - state().tiles[0].x_range->first, 3.9);
  for (int i = 0; i < 4; ++i) driver().wheel(x, y, -10);
  EXPECT_FALSE(state().tiles[0].x_range.has_value()) << "zoomed out to the whole";
}

TEST_F(OpenWindow, ColourLimitsFollowTheDraggedBar) {
  show("attention");
  const auto scene = w().tiles[0].scene();
  ASSERT_GE(scene->axes.size(), 2U);
  const figure::Rect bar = scene->axes[1].plot;
  const auto [x, y] = on_screen({bar.centre().x, bar.bottom() - 4});
  driver().drag(x, y, x, y - 40).settle();
  ASSERT_TRUE(state().tiles[0].limits.has_value());
  driver().double_click(x, y);
  EXPECT_FALSE(state().tiles[0].limits.has_value());
}

TEST_F(OpenWindow, ABarOfProbabilitiesIsNotDraggedBeyondOne) {
  show("attention");
  const figure::Rect bar = w().tiles[0].scene()->axes[1].plot;
  const auto [x, y] = on_screen({bar.centre().x, bar.y + 8});
  driver().drag(x, y, x, y + 60);  // the upper limit grows
  driver().settle();
  ASSERT_TRUE(state().tiles[0].limits.has_value());
  const figure::Axis& axis = w().tiles[0].scene()->axes[1].y;
  EXPECT_LE(std::max(axis.first, axis.last), 1.0);
}

TEST_F(OpenWindow, TheStripAboveAnAttentionMapIsReadAndZoomed) {
  show("attention");
  const auto scene = w().tiles[0].scene();
  const auto strip =
      std::find_if(scene->axes.begin() + 1, scene->axes.end(), [](const figure::Axes& axes) {
        return axes.x.meaning == figure::AxisMeaning::token &&
               axes.y.meaning == figure::AxisMeaning::value;
      });
  ASSERT_NE(strip, scene->axes.end());
  const auto [x, y] = on_screen(strip->plot.centre());
  const auto before = driver().picture();
  driver().move(x, y).frames(2);
  EXPECT_NEAR(w().hovered().token, 52, 2);
  EXPECT_EQ(w().hovered().other_token, -1);
  // The read-out stands beside the pointer.
  EXPECT_THAT(w().tiles[0].readout(), StartsWith("token 5")) << "not a bare number";
  const int left = static_cast<int>(x), top = static_cast<int>(y);
  EXPECT_GT(WindowDriver::difference(before, driver().picture(), left - 120, top - 30, left - 4,
                                     top + 30),
            0.0);
  driver().wheel(x, y, 4).settle();
  ASSERT_TRUE(state().tiles[0].x_range.has_value());
  EXPECT_EQ(*state().tiles[0].x_range, *state().tiles[0].y_range);
}

TEST_F(OpenWindow, HoveringATokenMarksItEverywhereAndAClickSelectsIt) {
  driver().type("2");
  state().tiles[0].view = "similarity";
  state().tiles[1].view = "filmstrip";
  driver().settle();
  const auto [x, y] = in_plot(0.5, 0.5);
  const auto before = driver().picture();
  driver().move(x, y).frames(2);
  EXPECT_NEAR(w().hovered().token, 52, 2);
  const int middle = 270 + (980 - 270) / 2;
  EXPECT_GT(WindowDriver::difference(before, driver().picture(), middle, 60, 980, 600), 0.0)
      << "marked in the other view";
  EXPECT_GT(WindowDriver::difference(before, driver().picture(), 0, 680, 1280, 800), 0.0)
      << "and in the text";
  driver().click(x, y);
  EXPECT_NEAR(state().selection.token, 52, 2);
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_EQ(state().selection.token, -1);
}

TEST_F(OpenWindow, ACurveNamesItsHeadAndAClickSelectsTheHeadEverywhere) {
  driver().type("2");
  state().tiles[0] = TileState{.view = "budget-curve"};
  state().tiles[1] = TileState{.view = "agreement"};
  driver().settle();
  const auto scene = w().tiles[0].scene();
  // A place on a curve of another head that no other curve covers.
  std::optional<figure::Point> place;
  figure::Target head;
  for (const figure::PickLine& line : scene->lines) {
    const figure::Point a = line.points[0], b = line.points[1];
    const figure::Point middle{(a.x + b.x) / 2, (a.y + b.y) / 2};
    const bool selected =
        line.target.layer == state().selection.layer && line.target.head == state().selection.head;
    if (selected || scene->pick(middle) != line.target) continue;
    place = middle;
    head = line.target;
  }
  ASSERT_TRUE(place) << "no curve can be pointed at";
  const auto [x, y] = on_screen(*place);
  driver().move(x, y).frames(3);
  EXPECT_EQ(w().hovered().layer, head.layer);
  EXPECT_EQ(w().hovered().head, head.head);
  EXPECT_THAT(w().tiles[0].readout(), StartsWith("layer " + std::to_string(head.layer) + ", head " +
                                                 std::to_string(head.head)));
  EXPECT_THAT(w().tiles[0].readout(), HasSubstr("within the limit"));
  driver().move(1, 1).settle();
  const auto before = driver().picture();
  driver().click(x, y).move(1, 1).settle();
  EXPECT_EQ(state().selection.layer, head.layer);
  EXPECT_EQ(state().selection.head, head.head);
  for (const std::size_t tile : {0U, 1U}) {
    const auto shown = w().tiles[tile].scene();
    const auto [left, top] = on_screen({0, 0}, tile);
    const auto [right, bottom] = on_screen({shown->width, shown->height}, tile);
    EXPECT_GT(WindowDriver::difference(before, driver().picture(), static_cast<int>(left),
                                       static_cast<int>(top), static_cast<int>(right),
                                       static_cast<int>(bottom)),
              0.0)
        << "the selected head stands out in " << state().tiles[tile].view;
  }
}

TEST_F(OpenWindow, ACellOfAQueryHeadSelectsItsHead) {
  show("roles");
  const auto scene = w().tiles[0].scene();
  ASSERT_FALSE(scene->regions.empty());
  const figure::PickRegion& last = scene->regions.back();
  ASSERT_GE(last.target.query_head, 0);
  const auto [x, y] = on_screen(last.rect.centre());
  driver().move(x, y).frames(3);
  EXPECT_THAT(w().tiles[0].readout(),
              HasSubstr("query head " + std::to_string(last.target.query_head)));
  driver().click(x, y).frames(3);
  EXPECT_EQ(state().selection.layer, last.target.layer);
  EXPECT_EQ(state().selection.head, last.target.head);
  EXPECT_EQ(state().selection.query_head, -1) << "whoever looks at the mean goes on to do so";
  state().selection.query_head = last.target.query_head - 1;
  driver().frames(2);
  driver().click(x, y).frames(3);
  EXPECT_EQ(state().selection.query_head, last.target.query_head);
}

TEST_F(OpenWindow, TheGridsMeasureIsFoundByTyping) {
  driver().press_on("##left", {"###metric"}).frames(2);
  ASSERT_TRUE(w().sheets.palette.is_open());
  driver().type("head output error").frames(2);
  driver().key(GLFW_KEY_ENTER).settle();
  EXPECT_EQ(state().grid_measure, "head_error_l2");
  EXPECT_EQ(grid().size(), 6U);
  // What needs policy B says so, and Enter goes past it.
  driver().press_on("##left", {"###metric"});
  choose("overlap").frames(2);
  EXPECT_TRUE(w().sheets.palette.is_open());
  EXPECT_EQ(state().grid_measure, "head_error_l2");
  driver().key(GLFW_KEY_ESCAPE);
}

TEST_F(OpenWindow, TheGridsScaleIsChosenAndKept) {
  const auto before = driver().picture();
  state().grid_scale = "relative";
  driver().settle();
  EXPECT_GT(WindowDriver::difference(before, driver().picture(), 0, 200, 256, 700), 0.0);
  const auto made = w().grid.figure();
  ASSERT_NE(made, nullptr);
  EXPECT_THAT(made->figure->value_text({.layer = 1, .head = 0}),
              HasSubstr("from its layer's mean"));
}

TEST_F(OpenWindow, APinnedHeadStandsBesideTheSelectedOneInTheSameView) {
  driver().type("3");
  state().tiles[0] = TileState{.view = "attention"};
  state().tiles[1] = TileState{.view = "overview"};
  state().tiles[2] = TileState{.view = "survival"};
  state().selection.layer = 2;
  state().selection.head = 1;
  driver().settle();
  driver().type("h").key(GLFW_KEY_UP).settle();
  ASSERT_EQ(state().tile_count, 2);
  const auto head_of = [&](std::size_t tile) {
    std::string text;
    for (const auto& [name, value] : w().tiles[tile].figure()->settings) {
      if (name == "layer" || name == "head") text += value + ".";
    }
    return text;
  };
  EXPECT_EQ(head_of(0), "1.1.") << "the selected one";
  EXPECT_EQ(head_of(1), "2.1.") << "the pinned one";
  EXPECT_EQ(state().tiles[1].view, "attention");
  const auto bar = [&](std::size_t tile) {
    const auto& axes = w().tiles[tile].scene()->axes;
    const auto found = std::find_if(axes.begin(), axes.end(), [](const figure::Axes& one) {
      return one.x.label.empty() && one.plot.width < 12.0;
    });
    return found == axes.end() ? std::pair(0.0, 0.0) : std::pair(found->y.first, found->y.last);
  };
  EXPECT_NE(bar(0), std::pair(0.0, 0.0));
  EXPECT_EQ(bar(0), bar(1)) << "one colour means one value in both";
  // So do curves and distributions: their axes of values are the same.
  for (const char* view : {"norms", "distance-kernel"}) {
    for (std::size_t tile : {0, 1}) state().tiles[tile].view = view;
    driver().settle();
    const auto own = [&](std::size_t tile) {
      return w().tiles[tile].own_limits(w().metrics).panels;
    };
    const auto& a = w().tiles[0].scene()->axes;
    const auto& b = w().tiles[1].scene()->axes;
    ASSERT_EQ(a.size(), b.size()) << view;
    bool differed = false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto ends = [](const figure::Axes& one) {
        return std::array{one.x.first, one.x.last, one.y.first, one.y.last};
      };
      EXPECT_EQ(ends(a[i]), ends(b[i])) << view << ", panel " << i;
      differed = differed || ends(own(0)[i]) != ends(own(1)[i]);
    }
    EXPECT_TRUE(differed) << view << ": each by itself has other limits";
  }
  for (std::size_t tile : {0, 1}) state().tiles[tile].view = "attention";
  // One leads the other, whichever is active.
  state().active_tile = 1;
  driver().type("k");
  choose("film").settle();
  EXPECT_EQ(state().tiles[0].view, "filmstrip");
  EXPECT_EQ(head_of(1), "2.1.");
  driver().type("h").settle();
  EXPECT_EQ(state().tile_count, 3) << "the views before are back";
  EXPECT_EQ(state().tiles[1].view, "overview");
  EXPECT_EQ(state().tiles[0].view, "filmstrip") << "with the view chosen meanwhile";
  EXPECT_EQ(window::pinned_tile(state()), nullptr);
}

TEST_F(OpenWindow, BadFilesLeaveTheTraceOpenAndSayWhy) {
  const auto bad = folder_.path() / "bad.h5";
  std::ofstream(bad) << "this is not a trace";
  open_file(bad);
  EXPECT_THAT(w().notice, HasSubstr("bad.h5"));
  EXPECT_TRUE(w().notice_is_error);
  ASSERT_NE(w().results.trace(), nullptr);
  EXPECT_EQ(w().results.trace()->path().filename(), "small.h5");
  open_file(folder_.path() / "missing.h5");
  EXPECT_THAT(w().notice, HasSubstr("missing.h5"));
  std::ofstream(folder_.path() / "bad.json") << "{";
  w().open((folder_.path() / "bad.json").string());
  EXPECT_THAT(w().notice, HasSubstr("not valid JSON"));
  open_file(trace());
  EXPECT_EQ(w().notice, "");
}

TEST_F(OpenWindow, SessionsRestoreTheWholeState) {
  driver().key(GLFW_KEY_UP).type("3").type("t").type("b").type("[");
  state().tiles[1].x_range = {{8.0, 40.0}};
  driver().settle();
  const auto path = (folder_.path() / "session.json").string();
  w().save_session(path);
  const window::WorkspaceState saved = state();
  start();
  open_file(path);
  EXPECT_EQ(state(), saved);
  ASSERT_NE(w().results.trace(), nullptr);
}

TEST_F(OpenWindow, AnySizeAndScaleIsDrawn) {
  for (const auto& [width, height] : {std::pair{640, 480}, {320, 320}, {1920, 1200}, {900, 500}}) {
    driver().resize(width, height).settle();
    EXPECT_GT(WindowDriver::colours(driver().picture()), 20) << width << " x " << height;
  }
  driver().resize(1280, 800);
  for (int i = 0; i < 8; ++i) driver().key(GLFW_KEY_EQUAL, true);
  driver().settle();
  EXPECT_GT(state().scale, 1.5);
  for (int i = 0; i < 20; ++i) driver().key(GLFW_KEY_MINUS, true);
  EXPECT_DOUBLE_EQ(state().scale, window::kMinScale);
  driver().key(GLFW_KEY_0, true);
  EXPECT_DOUBLE_EQ(state().scale, 1.0);
}

TEST_F(OpenWindow, HelpAndPanelsOpenByKey) {
  driver().key(GLFW_KEY_F1);
  EXPECT_TRUE(w().sheets.help.is_open());
  const int layer = state().selection.layer;
  driver().key(GLFW_KEY_DOWN);
  EXPECT_EQ(state().selection.layer, layer) << "keys do not reach through the sheet";
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.help.is_open());
  const auto wide = w().tiles[0].scene()->width;
  driver().key(GLFW_KEY_F7).key(GLFW_KEY_F9).settle();
  EXPECT_GT(w().tiles[0].scene()->width, wide);
}

TEST_F(OpenWindow, ThePanelsControlsAreReachedByKey) {
  const int layer = state().selection.layer;
  driver().key(GLFW_KEY_F6);
  driver().key(GLFW_KEY_F6);  // the right panel
  driver().frames(2);
  driver().key(GLFW_KEY_DOWN).key(GLFW_KEY_DOWN);
  EXPECT_TRUE(ImGui::GetIO().NavActive);
  EXPECT_EQ(state().selection.layer, layer) << "arrows move among the controls now";
  driver().key(GLFW_KEY_ESCAPE).key(GLFW_KEY_DOWN);
  EXPECT_EQ(state().selection.layer, layer + 1) << "and among the heads again";
}

TEST_F(OpenWindow, ExportsTheViewShown) {
  const auto target = folder_.path() / "view.svg";
  state().tiles[0].x_range = {{8.0, 40.0}};
  driver().settle();
  driver().key(GLFW_KEY_E, true);
  ASSERT_TRUE(w().sheets.export_panel.is_open());
  driver().frames(3);
  driver().key(GLFW_KEY_A, true).type(target.string()).key(GLFW_KEY_ENTER).settle();
  EXPECT_THAT(w().notice, HasSubstr("view.svg"));
  ASSERT_TRUE(std::filesystem::exists(target));
  const std::string svg = file_text(target);
  for (const char* setting : {"small.h5", "keydiff", "version", "budget", "8 to 40"}) {
    EXPECT_THAT(svg, HasSubstr(setting)) << "the settings travel with the figure";
  }
}

TEST_F(OpenWindow, EveryNumberCanBeWritten) {
  for (const char* digits : {"10⁻¹²", "10⁰³", "⁴⁵⁶⁷⁸⁹", "× − … · ℒ θ σ"}) {
    for (const char* at = digits; *at != 0;) {
      unsigned character = 0;
      at += ImTextCharFromUtf8(&character, at, nullptr);
      if (character == ' ') continue;
      EXPECT_NE(w().fonts.secondary->FindGlyphNoFallback(static_cast<ImWchar>(character)), nullptr)
          << digits << ": U+" << std::hex << character;
    }
  }
}

TEST_F(OpenWindow, NarrowHeadersKeepTheirChoicesInAList) {
  driver().resize(1024, 700);
  state().tile_count = 4;
  show("attention");
  // The last in the line: the button of the list.
  const figure::Rect more = w().tiles[0].header_items().back();
  const auto before = driver().picture();
  driver().click(static_cast<float>(more.centre().x), static_cast<float>(more.centre().y));
  driver().frames(2);
  const int x = static_cast<int>(more.x);
  const int y = static_cast<int>(more.bottom());
  const bool opened =
      WindowDriver::difference(before, driver().picture(), x, y, x + 150, y + 60) > 0.1;
  EXPECT_TRUE(opened) << "no list of the choices that have no room";
}

TEST_F(OpenWindow, LayoutsShowTheirViewsByKey) {
  driver().key(GLFW_KEY_1, true).settle();
  EXPECT_EQ(state().tile_count, 3);
  EXPECT_EQ(state().tiles[0].view, "similarity");
  driver().key(GLFW_KEY_2, true).settle();
  EXPECT_TRUE(state().policy_b_on);
  EXPECT_EQ(state().tiles[0].side, window::PolicySide::a);
  EXPECT_EQ(state().tiles[1].side, window::PolicySide::b);
  for (int i = 0; i < state().tile_count; ++i) {
    EXPECT_EQ(w().tiles[i].error(), "") << i;
  }
  for (const int key : {GLFW_KEY_3, GLFW_KEY_4}) {
    driver().key(key, true).settle();
    EXPECT_EQ(state().tile_count, 3);
    for (int i = 0; i < 3; ++i) EXPECT_NE(w().tiles[i].scene(), nullptr) << i;
  }
  const std::string shown = state().tiles[0].view;
  driver().key(GLFW_KEY_5, true);
  EXPECT_EQ(state().tile_count, 1);
  EXPECT_EQ(state().tiles[0].view, shown);
  EXPECT_FALSE(state().left_panel);
}

TEST_F(OpenWindow, AStandsBesideBInTheSameView) {
  show("filmstrip");
  state().policy_b = parse_policy("sink");
  driver().type("c").settle();
  ASSERT_EQ(state().tile_count, 2);
  const auto of = [&](std::size_t tile) {
    std::string policy;
    for (const auto& [name, value] : w().tiles[tile].figure()->settings) {
      if (name == "policy") policy = value;
    }
    return policy;
  };
  EXPECT_EQ(of(0), "keydiff");
  EXPECT_EQ(of(1), "sink");
  driver().type("b");  // off
  driver().frames(3);
  EXPECT_THAT(w().tiles[1].error(), HasSubstr("policy B"));
}

TEST_F(OpenWindow, ThePaletteFindsAndDoesThings) {
  driver().key(GLFW_KEY_K, true);
  ASSERT_TRUE(w().sheets.palette.is_open());
  driver().frames(2);
  driver().type("attention map").frames(2);
  driver().key(GLFW_KEY_ENTER);
  EXPECT_FALSE(w().sheets.palette.is_open());
  EXPECT_EQ(state().tiles[0].view, "attention");
  driver().key(GLFW_KEY_K, true);
  choose("policy b: tova");
  EXPECT_TRUE(state().policy_b_on);
  EXPECT_EQ(state().policy_b.text(), "tova(layer)") << "as its authors ran it";
  driver().key(GLFW_KEY_K, true);
  choose("policy b: tova, plain");
  EXPECT_EQ(state().policy_b.text(), "tova");
  driver().key(GLFW_KEY_K, true).frames(2);
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.palette.is_open());
}

TEST_F(OpenWindow, AViewIsChosenFromAListByMouseAndByKey) {
  show("similarity");
  const float y = w().tiles[0].origin().y - window::Tile::header_height(w().fonts) / 2;
  driver().click(w().tiles[0].origin().x + 40, y).frames(2);
  ASSERT_TRUE(w().sheets.palette.is_open());
  driver().type("film").frames(2);
  driver().key(GLFW_KEY_ENTER);
  EXPECT_EQ(state().tiles[0].view, "filmstrip");
  driver().type("k").frames(2);
  ASSERT_TRUE(w().sheets.palette.is_open());
  driver().key(GLFW_KEY_DOWN).key(GLFW_KEY_ENTER);
  EXPECT_NE(state().tiles[0].view, "filmstrip");
  EXPECT_EQ(state().selection.layer, 1) << "arrows stay in the list";
}

TEST_F(OpenWindow, AClickOnATokenSaysWhyItStayedOrLeft) {
  show("filmstrip");
  const auto [x, y] = in_plot(0.3, 0.4);
  driver().click(x, y).frames(3);
  ASSERT_TRUE(w().sheets.token_card.is_open());
  const auto& life = w().sheets.token_card.explanation(0);
  ASSERT_TRUE(life.has_value());
  EXPECT_EQ(life->token, state().selection.token);
  EXPECT_EQ(life->left, w().shown.head(0)->evicted_at.at(life->token));
  driver().key(GLFW_KEY_RIGHT, false, true);  // the next token: the card follows
  driver().frames(2);
  EXPECT_EQ(w().sheets.token_card.explanation(0)->token, state().selection.token);
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.token_card.is_open());
  EXPECT_EQ(state().selection.token, -1);
}

TEST_F(OpenWindow, ShiftDragChoosesTokensForEveryView) {
  show("similarity");
  const auto [x0, y0] = in_plot(0.25, 0.5);
  const auto [x1, y1] = in_plot(0.5, 0.5);
  ImGui::GetIO().KeyShift = true;
  driver().drag(x0, y0, x1, y1);
  ImGui::GetIO().KeyShift = false;
  driver().settle();
  const int length = w().results.trace()->length();
  EXPECT_NEAR(state().selection.first_token, 0.25 * length, 2);
  EXPECT_NEAR(state().selection.last_token, 0.5 * length, 2);
  EXPECT_EQ(w().tiles[0].scene()->axes[0].x.first, state().selection.first_token);
  driver().type("r").settle();
  EXPECT_EQ(state().selection.last_token, -1);
}

TEST_F(OpenWindow, ChangedTokensAreMarkedInTheText) {
  state().policy_b = parse_policy("sink");
  state().policy_b_on = true;
  driver().settle();
  const auto fate = driver().picture();
  state().token_colour = "difference";
  driver().settle();
  EXPECT_GT(WindowDriver::difference(fate, driver().picture(), 0, 700, 1280, 800), 0.01);
  ASSERT_NE(w().shown.tokens_b(), nullptr);
  ASSERT_EQ(w().shown.tokens_a()->states.size(), w().shown.tokens_b()->states.size());
}

TEST_F(OpenWindow, ATokenIsFollowedKeptAndDroppedFromItsCard) {
  state().policy_a = parse_policy("random");
  show("filmstrip");
  const auto [x, y] = in_plot(0.3, 0.4);
  driver().click(x, y).frames(3);
  ASSERT_TRUE(w().sheets.token_card.is_open());
  const int token = state().selection.token;
  driver().press_on("##token", {"Follow"}).settle();
  EXPECT_EQ(state().grid_measure, "followed");
  EXPECT_EQ(state().followed, std::to_string(token));
  const auto kept = [&] {
    const std::vector<double> shares = grid();
    return static_cast<int>(std::count(shares.begin(), shares.end(), 1.0));
  };
  const int before = kept(), all = static_cast<int>(grid().size());
  EXPECT_LT(before, all) << "some head evicts it";
  EXPECT_EQ(w().shown.heads_keeping(token), (std::pair{before, all}));
  for (const CsvRow& row : csv_rows(*w().grid.figure()->figure))
    EXPECT_NE(row.at("read"), "") << "who reads it";

  driver().press_on("##token", {"Keep in all"}).settle();
  EXPECT_EQ(state().policy_a.text(), "random+keep(\"" + std::to_string(token) + "\")");
  EXPECT_EQ(kept(), all);
  driver().key(GLFW_KEY_Z, true).settle();
  EXPECT_EQ(state().policy_a.text(), "random");
  EXPECT_EQ(kept(), before);
  driver().press_on("##token", {"Drop here"}).settle();
  const std::string head =
      std::to_string(state().selection.layer) + "." + std::to_string(state().selection.head);
  EXPECT_EQ(state().policy_a.text(),
            "random+drop(\"" + std::to_string(token) + "\",heads=\"" + head + "\")");
  const int heads = w().results.trace()->model().num_kv_heads;
  EXPECT_EQ(grid()[state().selection.layer * heads + state().selection.head], 0.0);
}

TEST_F(OpenWindow, TokensToFollowAreTyped) {
  state().grid_measure = "followed";
  driver().settle();
  const auto hovered = [&] {
    return w().grid.figure()->figure->value_text({.layer = 0, .head = 0});
  };
  EXPECT_THAT(hovered(), HasSubstr("of 1 token still there")) << "auto, and there is no needle";
  driver().press_on("##left", {"##followed"}).key(GLFW_KEY_A, true).type("3-5").settle();
  EXPECT_THAT(hovered(), HasSubstr("of 3 tokens still there"));
  EXPECT_EQ(w().grid.error(), "");
  driver().key(GLFW_KEY_A, true).type("nowhere").settle();
  EXPECT_THAT(w().grid.error(), HasSubstr("a segment of the trace"));
  EXPECT_EQ(state().followed, "nowhere") << "stays as typed";
  driver().key(GLFW_KEY_A, true).type("context").settle();
  EXPECT_THAT(hovered(), HasSubstr("tokens still there"));
}

TEST_F(OpenWindow, TheHeadGridFollowsWhileABudgetIsDragged) {
  for (const char* measure : {"entries", "retained_mass"}) {
    state().grid_measure = measure;
    driver().settle();
    const auto before = w().grid.scene();
    bool followed = false;
    for (int i = 0; i < 400 && !followed;
         ++i) {  // another budget in every frame: the hand never rests
      state().budget = parse_budget(std::to_string(30 + i % 20));
      driver().frame();
      followed = w().grid.scene() != before;
      for (const figure::Item& item : w().grid.scene()->items) {
        const auto* cells = std::get_if<figure::Image>(&item);
        for (std::size_t at = 3; cells && at < cells->pixels->rgba.size(); at += 4)
          EXPECT_EQ(cells->pixels->rgba[at], 255) << "no head goes dark";
      }
    }
    EXPECT_TRUE(followed) << measure;
  }
  state().grid_measure = "entries";
  driver().settle();
  EXPECT_EQ(grid().front(), state().budget.resolve(96));
}

TEST_F(OpenWindow, TheExportSheetShowsThePageAndCopiesItsCommand) {
  driver().key(GLFW_KEY_E, true).settle();
  ASSERT_NE(w().sheets.export_panel.preview(), nullptr);
  EXPECT_NEAR(w().sheets.export_panel.preview()->width, 85 * 72 / 25.4, 0.01);
  const auto before = driver().picture();
  driver().key(GLFW_KEY_ESCAPE).frames(2);
  EXPECT_GT(WindowDriver::difference(before, driver().picture(), 500, 200, 1000, 600), 0.1);
}

TEST_F(OpenWindow, ACaptureThatCannotStartSaysWhy) {
  driver().key(GLFW_KEY_N, true).frames(2);
  ASSERT_TRUE(w().sheets.capture_panel.is_open());
  w().sheets.capture_panel.options.model = folder_.path().string();
  w().sheets.capture_panel.start();
  driver().settle();
  for (int i = 0; i < 200 && w().sheets.capture_panel.running(); ++i) driver().frame();
  EXPECT_FALSE(w().sheets.capture_panel.running());
  EXPECT_TRUE(w().sheets.capture_panel.is_open()) << "so that it can be mended";
  driver().key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.capture_panel.is_open());
}

TEST_F(OpenWindow, AClosedLoopStartsFromTheTokensAndThePolicyInHand) {
  state().policy_a = parse_policy("h2o");
  driver().key(GLFW_KEY_R, true).frames(2);
  ASSERT_TRUE(w().sheets.capture_panel.is_open());
  const window::CaptureOptions& o = w().sheets.capture_panel.options;
  EXPECT_EQ(o.policy, "h2o");
  EXPECT_EQ(o.budget, "24");
  EXPECT_EQ(o.prompt, window::CaptureOptions::Prompt::trace);
  EXPECT_EQ(o.from, w().results.trace()->path().string());
}

TEST_F(Window, ClosesCleanlyWhileJobsRun) {
  w().open(trace());
  driver().frames(20);
  driver_.reset();
}

}  // namespace
}  // namespace kvloupe::test

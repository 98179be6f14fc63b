// The window on small screens: what gives way, what stays in reach, and the presentation (F5).

#include <imgui_internal.h>

#include "app/session/session.h"
#include "app/session/view_catalog.h"
#include "app/window/sheets/command_palette.h"
#include "app/window/shell/presentation.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using figure::Rect;
using window::Panels;

struct SmallScreen : WindowTest {
  void prepare() override {
    write_synthetic_trace(folder_ / "small.h5", {.layers = 3, .clusters = 4});
    start(1280, 720);
    open_and_settle(folder_ / "small.h5");
  }
  void show(int count, double scale) {
    state().tile_count = count;
    state().active_tile = 0;
    state().scale = scale;
    driver().settle();
  }
  bool in_sight(int tile) {
    const auto at = static_cast<std::size_t>(tile);
    return at >= w().stage().layout().first &&
           at < w().stage().layout().first + w().stage().layout().count;
  }
  static bool overlap(const Rect& a, const Rect& b) {
    return a.x < b.right() - 0.5 && b.x < a.right() - 0.5 && a.y < b.bottom() - 0.5 &&
           b.y < a.bottom() - 0.5;
  }
  static bool is_open(const char* window_name) {
    const ImGuiWindow* found = ImGui::FindWindowByName(window_name);
    return found && found->WasActive;
  }
  /// Everything that stands above pictures, of all tiles in sight and the line that names them.
  std::vector<Rect> items() {
    std::vector<Rect> all = w().stage().tab_items();
    for (int i = 0; i < state().tile_count; ++i) {
      if (!in_sight(i)) continue;
      const auto& header = w().tiles[i].header_items();
      all.insert(all.end(), header.begin(), header.end());
    }
    return all;
  }
};

TEST_F(SmallScreen, ANoticeMovesNothingWhereTheMenusLeaveItRoom) {
  show(2, 1.0);
  const auto places = [&] {
    std::vector<float> all;
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      if (!window->WasActive) continue;
      for (const float edge : {window->Pos.x, window->Pos.y, window->Size.x, window->Size.y})
        all.push_back(edge);
    }
    for (const Rect& item : items()) all.push_back(static_cast<float>(item.y));
    return all;
  };
  const auto before = places();
  const window::Picture picture = driver().picture();
  const auto bar = static_cast<int>(ImGui::GetFrameHeight());
  w().notice = "Written: /home/somebody/figures/film-strip.svg";
  driver().frames(3);
  EXPECT_EQ(places(), before);
  EXPECT_EQ(WindowDriver::difference(picture, driver().picture(), 0, bar + 1, 1280, 720), 0.0);
  EXPECT_GT(WindowDriver::difference(picture, driver().picture(), 0, 0, 1280, bar), 0.0);
  driver().press_on("##MainMenuBar", {"##menubar", "Dismiss"});
  EXPECT_EQ(w().notice, "");

  // A longer one stands above the pictures, as a whole.
  w().notice = "/home/somebody/figures/film-strip.doc: " + std::string(200, 'x');
  driver().frames(3);
  EXPECT_NE(places(), before);
  w().notice.clear();
  driver().settle();
  EXPECT_EQ(places(), before);
}

TEST_F(SmallScreen, NothingOverlapsAndEveryViewInSightHasItsRoom) {
  struct Screen {
    int width, height;
    double scale;
  };
  state().policy_b_on = true;
  for (const Screen& screen : {Screen{1280, 720, 1.5}, Screen{1024, 768, 1.25},
                               Screen{3840, 2160, 2.0}, Screen{1600, 1000, 1.0}}) {
    driver().resize(screen.width, screen.height);
    for (int count = 1; count <= 4; ++count) {
      show(count, screen.scale);
      SCOPED_TRACE(testing::Message() << count << " views, " << screen.width << " x "
                                      << screen.height << " at " << screen.scale);
      const std::vector<Rect> all = items();
      ASSERT_FALSE(all.empty());
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_GE(all[i].x, 0);
        EXPECT_LE(all[i].right(), w().stage().layout().centre.right());
        for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(all[i], all[j])) << i << " " << j;
      }
      for (int i = 0; i < count; ++i) {
        if (!in_sight(i)) continue;
        const window::Tile& tile = w().tiles[i];
        ASSERT_NE(tile.scene(), nullptr) << "no empty tile";
        const double unit = static_cast<double>(w().fonts.scale());
        EXPECT_GE(tile.scene()->width * static_cast<double>(tile.scale()), 295 * unit);
        EXPECT_GE(tile.scene()->height * static_cast<double>(tile.scale()), 195 * unit);
      }
      EXPECT_EQ(w().stage().tab_items().size(),
                w().stage().layout().count < static_cast<std::size_t>(count) ? count : 0);
    }
  }
}

TEST_F(SmallScreen, FoldingChangesNothingOfTheStateAndEndsWithTheLackOfRoom) {
  show(2, 1.5);
  EXPECT_EQ(w().stage().layout().open, (Panels{false, false, true}));
  EXPECT_TRUE(state().left_panel && state().right_panel && state().bottom_panel);
  const std::string session = window::session_text(state());
  driver().resize(2560, 1440).settle();
  EXPECT_EQ(w().stage().layout().open, (Panels{true, true, true}));
  EXPECT_EQ(window::session_text(state()), session);
}

TEST_F(SmallScreen, AFoldedPanelOpensOverTheViewsByKeyAndByClick) {
  show(2, 1.5);
  driver().key(GLFW_KEY_F7).frames(2);
  EXPECT_EQ(w().stage().drawer(), window::Panel::left);
  EXPECT_TRUE(is_open("##left-drawer"));
  EXPECT_TRUE(state().left_panel) << "the choice stays";
  driver().key(GLFW_KEY_ESCAPE).frames(2);
  EXPECT_EQ(w().stage().drawer(), window::Panel::none);
  driver().click(1275, 300);  // the rail at the right
  driver().frames(2);
  EXPECT_EQ(w().stage().drawer(), window::Panel::right);
  EXPECT_TRUE(is_open("##right-drawer"));
  driver().type("/");  // types a spec there
  driver().frames(3);
  EXPECT_TRUE(ImGui::GetIO().WantTextInput);
  EXPECT_EQ(w().stage().drawer(), window::Panel::right);
  driver().click(200, 400);  // beside it
  driver().frames(2);
  EXPECT_EQ(w().stage().drawer(), window::Panel::none);
  driver().key(GLFW_KEY_F6);  // the keyboard goes to the panel, wherever that is
  driver().frames(2);
  EXPECT_EQ(w().stage().drawer(), window::Panel::left);
  show(1, 1.0);
  EXPECT_EQ(w().stage().drawer(), window::Panel::none) << "there is room again";
  driver().key(GLFW_KEY_F7);
  EXPECT_FALSE(state().left_panel) << "an open one is put away";
}

TEST_F(SmallScreen, ViewsOutOfSightAreReachedByTheirNamesAndByKey) {
  show(4, 1.5);
  ASSERT_EQ(w().stage().layout().count, 2U);
  ASSERT_EQ(w().stage().tab_items().size(), 4U);
  const Rect last = w().stage().tab_items().back();
  driver().click(static_cast<float>(last.centre().x), static_cast<float>(last.centre().y)).settle();
  EXPECT_EQ(state().active_tile, 3);
  EXPECT_TRUE(in_sight(2) && in_sight(3));
  EXPECT_NE(w().tiles[3].scene(), nullptr);
  driver().type("w").settle();
  EXPECT_TRUE(in_sight(0)) << "round to the first";
  driver().key(GLFW_KEY_PAGE_UP).settle();
  EXPECT_EQ(state().active_tile, 3);
}

TEST_F(SmallScreen, StepsAreInReachBelowAFoldedPanel) {
  driver().resize(1024, 768);
  show(2, 1.25);
  ASSERT_FALSE(w().stage().layout().open.bottom);
  EXPECT_TRUE(is_open("##bottom-rail"));
  state().selection.step = 0;
  driver().frames(2);
  // In the line of steps, right of the button that plays them.
  driver().click(200, 768 - 28);
  EXPECT_GT(state().selection.step, 0);
  driver().key(GLFW_KEY_F8).frames(2);
  EXPECT_TRUE(is_open("##bottom-drawer"));
}

TEST_F(SmallScreen, APresentationShowsOneViewLargeAndGoesThroughViewsAndStepsByKey) {
  show(3, 1.0);
  const window::WorkspaceState before = state();
  const float usual = w().fonts.scale();
  driver().key(GLFW_KEY_F5).settle();
  ASSERT_TRUE(w().presenting());
  EXPECT_TRUE(is_open("##presentation"));
  EXPECT_FALSE(is_open("##centre") || is_open("##left") || is_open("##bottom"));
  EXPECT_GE(w().fonts.scale(), 1.4F * usual);
  const auto picture = [&](int tile) {
    const auto scene = w().tiles[tile].scene();
    const double scale = static_cast<double>(w().tiles[tile].scale());
    return std::pair{scene->width * scale, scene->height * scale};
  };
  EXPECT_GT(picture(0).first, 1280 * 0.9);
  EXPECT_GT(picture(0).second, 720 * 0.5);

  state().selection.step = 0;
  driver().key(GLFW_KEY_RIGHT);
  EXPECT_EQ(state().selection.step, 1);
  driver().key(GLFW_KEY_LEFT);
  EXPECT_EQ(state().selection.step, 0);
  driver().key(GLFW_KEY_END);
  EXPECT_EQ(state().selection.step, w().shown.step_count() - 1);
  EXPECT_EQ(state().selection.head, before.selection.head) << "arrows change no head here";

  driver().key(GLFW_KEY_PAGE_DOWN);
  EXPECT_EQ(state().active_tile, 1);
  driver().key(GLFW_KEY_DOWN);
  EXPECT_EQ(state().active_tile, 2);
  driver().key(GLFW_KEY_PAGE_DOWN);
  EXPECT_EQ(state().active_tile, 0);
  driver().key(GLFW_KEY_PAGE_UP);
  EXPECT_EQ(state().active_tile, 2);
  driver().settle();
  EXPECT_GT(picture(2).second, 720 * 0.5);

  driver().key(GLFW_KEY_ESCAPE).settle();
  EXPECT_FALSE(w().presenting());
  EXPECT_EQ(w().fonts.scale(), usual);
  EXPECT_EQ(state().tile_count, before.tile_count);
  EXPECT_EQ(state().scale, before.scale);
}

TEST_F(SmallScreen, APresentationOfOneViewGoesOnToWhatElseCanBeShown) {
  show(1, 1.0);
  driver().key(GLFW_KEY_F5).settle();
  const std::string first = state().tiles[0].view;
  for (int i = 0; i < 60; ++i) {
    driver().key(GLFW_KEY_PAGE_DOWN);
    const figure::FigureInfo* view = window::find_view(state().tiles[0].view);
    ASSERT_NE(view, nullptr);
    EXPECT_EQ(window::why_not(*view, w().results, w().state), "") << state().tiles[0].view;
    if (state().tiles[0].view == first) break;
  }
  EXPECT_EQ(state().tiles[0].view, first) << "round once";
}

TEST(Presentation, IsAsLargeAsTheScreenAndLargerByTheChosenScale) {
  using window::presentation_scale;
  EXPECT_NEAR(presentation_scale(1.0F, 1.0F, 1280, 720), 1.5F, 0.01F);
  EXPECT_NEAR(presentation_scale(1.5F, 1.5F, 1280, 720), 2.25F, 0.01F);
  EXPECT_NEAR(presentation_scale(1.0F, 1.0F, 1920, 1080), 2.25F, 0.01F);
  EXPECT_NEAR(presentation_scale(2.0F, 2.0F, 3840, 2160), 5.0F, 0.01F);
  EXPECT_EQ(presentation_scale(1.0F, 1.0F, 640, 480), 1.0F) << "never smaller than usual";
}

}  // namespace
}  // namespace kvloupe::test

// The borders of panels and tiles: dragged, restored, kept, and within what the views need.

#include <imgui_internal.h>

#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using window::Panels;

constexpr Panels kAllPanels{true, true, true};

struct Borders : WindowTest {
  void prepare() override {
    write_synthetic_trace(folder_ / "small.h5", {.layers = 3, .clusters = 4});
    open(1600, 1000);
  }
  void open(int width, int height, double scale = 1.0, int tiles = 1) {
    window::Workspace::Host host{.preferences = folder_ / "preferences.json"};
    start(width, height, host);
    driver().settle();
    state() = window::default_state();
    state().scale = scale;
    state().tile_count = tiles;
    for (auto& tile : state().tiles) tile = {.view = "similarity"};
    open_and_settle(folder_ / "small.h5");
  }
  static ImRect area(const char* name) {
    const ImGuiWindow* found = ImGui::FindWindowByName(name);
    return found != nullptr && found->WasActive ? found->Rect() : ImRect();
  }
  static float left() { return area("##left").Max.x; }
  static float right() { return area("##right").Min.x; }
  static float bottom() { return area("##bottom").Min.y; }
  /// Takes the border with the pointer and goes with it, pixel by pixel where `step` is 1.
  template <class Border>
  void drag(Border border, bool upright, float to, float step) {
    const float from = border();
    const float into = border == &Borders::left ? -3.0F : 3.0F;
    const auto at = [&](float place) {
      upright ? driver().move(place + into, 400) : driver().move(400, place + into);
    };
    at(from);
    driver().press(true).frames(2);
    EXPECT_EQ(border(), from) << "pressing alone moves nothing";
    const float way = to > from ? step : -step;
    for (float place = from + way; std::abs(place - from) <= std::abs(to - from); place += way) {
      at(place);
      EXPECT_NEAR(border(), place, 1.0F) << "it is where the pointer is";
    }
    driver().press(false).settle();
  }
  double plot_share(int tile) const {
    const auto scene = driver_->workspace.tiles[tile].scene();
    return scene->width * static_cast<double>(driver_->workspace.tiles[0].scale());
  }
  void expect_legible(int count) {
    const double unit = static_cast<double>(w().fonts.scale());
    EXPECT_EQ(w().stage().layout().count, static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const window::Tile& tile = w().tiles[i];
      ASSERT_NE(tile.scene(), nullptr);
      EXPECT_GE(tile.scene()->width * static_cast<double>(tile.scale()), 295 * unit);
      EXPECT_GE(tile.scene()->height * static_cast<double>(tile.scale()), 195 * unit);
    }
  }
};

TEST_F(Borders, FollowThePointerAndArePutBackByADoubleClick) {
  const float left_before = left(), right_before = right(), bottom_before = bottom();
  drag(&Borders::left, true, left_before + 120, 7);
  EXPECT_NEAR(left(), left_before + 120, 8);
  EXPECT_EQ(right(), right_before) << "the others stay";
  drag(&Borders::right, true, right_before - 100, 5);
  EXPECT_NEAR(right(), right_before - 100, 6);
  drag(&Borders::bottom, false, bottom_before - 150, 1);
  EXPECT_NEAR(bottom(), bottom_before - 150, 2);
  drag(&Borders::bottom, false, bottom() + 60, 3);
  EXPECT_NEAR(left(), left_before + 120, 8);
  expect_legible(1);
  driver().double_click(left() - 3, 400).double_click(right() + 3, 400);
  driver().double_click(400, bottom() + 3).settle();
  EXPECT_EQ(left(), left_before);
  EXPECT_EQ(right(), right_before);
  EXPECT_EQ(bottom(), bottom_before);
  EXPECT_EQ(w().stage().chosen, window::ChosenSizes{});
}

TEST_F(Borders, AreWhereTheyWereInTheNextWindow) {
  drag(&Borders::left, true, left() + 80, 8);
  drag(&Borders::bottom, false, bottom() - 200, 10);
  const float left_before = left(), bottom_before = bottom();
  open(1600, 1000);
  EXPECT_EQ(left(), left_before);
  EXPECT_EQ(bottom(), bottom_before);
  driver().resize(1280, 800).settle();
  EXPECT_EQ(w().stage().layout().open, kAllPanels) << "nothing folds because of it";
  driver().resize(1600, 1000).settle();
  EXPECT_EQ(bottom(), bottom_before) << "and the wish is not forgotten";
  driver().resize(1280, 720).settle();
  EXPECT_LE(area("##bottom").GetHeight(), 720.0F / 3) << "pictures come first in a low window";
}

TEST_F(Borders, StopWhereAPanelWouldFoldOrAViewCouldNotBeRead) {
  struct Screen {
    int width, height;
    double scale;
    int tiles;
  };
  for (const Screen& screen : {Screen{1280, 800, 1.0, 1}, Screen{1280, 800, 1.0, 2},
                               Screen{1280, 800, 1.5, 1}, Screen{1920, 1080, 1.5, 2}}) {
    SCOPED_TRACE(testing::Message() << screen.width << " x " << screen.height << " at "
                                    << screen.scale << ", " << screen.tiles << " views");
    std::filesystem::remove(folder_ / "preferences.json");
    open(screen.width, screen.height, screen.scale, screen.tiles);
    const Panels panels = w().stage().layout().open;
    const auto pull = [&](float x0, float y0, float x1, float y1) {
      driver().drag(x0, y0, x1, y1, 20).settle();
      EXPECT_EQ(w().stage().layout().open, panels);
      expect_legible(screen.tiles);
    };
    const auto width = static_cast<float>(screen.width), height = static_cast<float>(screen.height);
    const auto unit = static_cast<float>(screen.scale);
    if (panels.bottom) pull(400, bottom() + 3, 400, 30);
    if (panels.left) pull(left() - 3, 300, width - 10, 300);
    if (panels.right) pull(right() + 3, 300, 10, 300);
    if (panels.bottom) {
      EXPECT_LT(bottom(), height * 0.8F) << "it is larger than before";
      pull(400, bottom() + 3, 400, height - 2);
      EXPECT_GE(height - bottom(), 111 * unit) << "a line of text is left";
    }
    if (panels.left) {
      pull(left() - 3, 300, 5, 300);
      EXPECT_GE(left(), 159 * unit);
    }
    if (panels.right) {
      pull(right() + 3, 300, width - 5, 300);
      EXPECT_GE(width - right(), 199 * unit);
    }
  }
}

TEST_F(Borders, BetweenTilesSideBySideShareTheirWidth) {
  open(1600, 1000, 1.0, 2);
  const auto gap = [&] {  // left of the second tile
    return w().tiles[1].origin().x - 8;
  };
  const float before = gap();
  const float y = 400;
  driver().move(before, y).press(true).frames(2);
  const float start = gap();
  EXPECT_EQ(start, before);
  for (float way = 10; way <= 120; way += 10) {
    driver().move(before - way, y);
    EXPECT_NEAR(gap(), before - way, 1.0F);
  }
  driver().press(false).settle();
  EXPECT_NEAR(gap(), before - 120, 1.0F) << "and stays there";
  EXPECT_LT(plot_share(0), plot_share(1));
  const float kept = gap();
  open(1600, 1000, 1.0, 2);
  EXPECT_NEAR(gap(), kept, 1.0F) << "in the next window, too";
  state().tile_count = 1;
  driver().settle();
  state().tile_count = 2;
  driver().settle();
  EXPECT_NEAR(gap(), kept, 1.0F);
  driver().drag(gap(), y, 10, y, 20).settle();
  expect_legible(2);
  driver().double_click(gap(), y).settle();
  EXPECT_NEAR(gap(), before, 1.0F);
}

TEST_F(Borders, AreReachedByKeyAndGoAsFarAsThereIsRoom) {
  const float before = bottom();
  driver().key(GLFW_KEY_F6).key(GLFW_KEY_F6).key(GLFW_KEY_F6).frames(2);
  const ImGuiWindow* panel = ImGui::FindWindowByName("##bottom");
  const ImGuiID border = ImHashStr("##border", 0, panel->ID);
  for (int i = 0; i < 6 && ImGui::GetCurrentContext()->NavId != border; ++i) {
    driver().key(GLFW_KEY_UP).frames(2);
  }
  ASSERT_EQ(ImGui::GetCurrentContext()->NavId, border);
  driver().key(GLFW_KEY_SPACE).settle();
  EXPECT_LT(bottom(), before - 150);
  expect_legible(1);
  driver().key(GLFW_KEY_SPACE).settle();
  EXPECT_EQ(bottom(), before);
}

}  // namespace
}  // namespace kvloupe::test

// The window with a trace of a real model's size: thirty layers, two thousand tokens, on the
// screens that people have.

#include <imgui.h>
#include <imgui_internal.h>

#include <ostream>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/long_trace.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kLayers = 30;
constexpr int kHeads = 3;

struct Screen {
  int width, height;
  double scale;
};
void PrintTo(const Screen& screen, std::ostream* out) {
  *out << screen.width << " x " << screen.height << ", " << 100 * screen.scale << " %";
}

struct DeepModel : testing::TestWithParam<Screen> {
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    write_long_trace(trace(), {.layers = kLayers,
                               .query_heads = 9,
                               .heads = kHeads,
                               .head_dim = 64,
                               .tokens = 2000,
                               .block = 128});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::filesystem::path trace() { return *folder_ / "deep.h5"; }

  void SetUp() override {
    if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
    driver_ = std::make_unique<WindowDriver>(GetParam().width, GetParam().height);
    w().state = window::default_state();
    w().state.scale = GetParam().scale;
    w().open(trace().string());
    driver_->settle();
    ASSERT_NE(w().results.trace(), nullptr) << w().notice;
  }
  window::Workspace& w() { return driver_->workspace; }

  static ImRect screen() {
    return {0, 0, static_cast<float>(GetParam().width), static_cast<float>(GetParam().height)};
  }
  /// The windows of this frame that stand for themselves: panels, the tiles' area, rails.
  static std::vector<const ImGuiWindow*> windows() {
    std::vector<const ImGuiWindow*> found;
    for (const ImGuiWindow* one : ImGui::GetCurrentContext()->Windows) {
      const bool own = one->ParentWindow == nullptr || (one->Flags & ImGuiWindowFlags_Popup) != 0;
      const bool shown = one->WasActive && !one->Hidden && one->SkipItems == false;
      if (own && shown && one->Name != std::string("Debug##Default")) found.push_back(one);
    }
    return found;
  }
  /// A pixel may be rounded away.
  static bool inside(const ImRect& area) {
    ImRect room = screen();
    room.Expand(1.0F);
    return room.Contains(area);
  }
  void expect_all_inside(const std::string& when) {
    for (const ImGuiWindow* one : windows()) {
      EXPECT_TRUE(inside(one->Rect())) << one->Name << ", " << when;
    }
  }
  std::vector<ImRect> pictures() const {
    std::vector<ImRect> found;
    for (const window::Tile& tile : driver_->workspace.tiles) {
      if (!tile.in_sight() || tile.scene() == nullptr) continue;
      const ImVec2 at = tile.origin();
      found.emplace_back(at.x, at.y, at.x + tile.scale() * static_cast<float>(tile.scene()->width),
                         at.y + tile.scale() * static_cast<float>(tile.scene()->height));
    }
    return found;
  }

  void expect_apart_in_every_layout();
  void expect_sheets_fit();

  static inline TemporaryFolder* folder_ = nullptr;
  std::unique_ptr<WindowDriver> driver_;
};

void DeepModel::expect_apart_in_every_layout() {
  for (const int layout : {GLFW_KEY_1, GLFW_KEY_2, GLFW_KEY_3, GLFW_KEY_4, GLFW_KEY_5}) {
    driver_->key(layout, true).settle();
    const std::string when = "Ctrl " + std::to_string(layout - GLFW_KEY_0);
    expect_all_inside(when);
    const auto all = windows();
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        ImRect less = all[i]->Rect();
        less.Expand(-1.0F);
        EXPECT_FALSE(less.Overlaps(all[j]->Rect()))
            << all[i]->Name << " over " << all[j]->Name << ", " << when;
      }
    }
    const std::vector<ImRect> areas = pictures();
    ASSERT_FALSE(areas.empty()) << when;
    for (std::size_t i = 0; i < areas.size(); ++i) {
      EXPECT_TRUE(inside(areas[i])) << "picture " << i << ", " << when;
      EXPECT_GE(areas[i].GetWidth(), 200.0F * GetParam().scale) << "picture " << i << ", " << when;
      EXPECT_GE(areas[i].GetHeight(), 100.0F * GetParam().scale) << "picture " << i << ", " << when;
      ImRect less = areas[i];
      less.Expand(-1.0F);
      for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(less.Overlaps(areas[j])) << when;
    }
  }
}

void DeepModel::expect_sheets_fit() {
  struct Opened {
    const char* name;
    int key;
    bool control;
  };
  for (const Opened& sheet :
       {Opened{"help", GLFW_KEY_F1, false}, Opened{"views and commands", GLFW_KEY_K, true},
        Opened{"heads", GLFW_KEY_T, true}, Opened{"jobs", GLFW_KEY_J, true},
        Opened{"export", GLFW_KEY_E, true}, Opened{"open", GLFW_KEY_O, true}}) {
    const std::size_t before = windows().size();
    driver_->key(sheet.key, sheet.control).settle();
    driver_->frames(3);
    EXPECT_GT(windows().size(), before) << sheet.name << " did not open";
    expect_all_inside(sheet.name);
    driver_->key(GLFW_KEY_ESCAPE).frames(3);
    EXPECT_EQ(windows().size(), before) << sheet.name << " did not close";
  }
}

TEST_P(DeepModel, PanelsPicturesAndSheetsAreInSightAndApart) {
  expect_apart_in_every_layout();
  expect_sheets_fit();
}

/// The first of the screens is enough: what waits does so on each.
class DeepModelAtWork : public DeepModel {};
TEST_P(DeepModelAtWork, EveryHeadIsReachedAndNoFrameWaitsForWhatIsComputed) {
  // Heavy enough that it is still computed at the end: the frames below are drawn beside it.
  w().state.tiles[0] = {.view = "block-size"};
  driver_->frames(2);
  ASSERT_FALSE(w().tiles[0].settled());
  double longest = 0.0;
  const auto press = [&](int key) {
    driver_->key(key);
    longest = std::max(longest, driver_->frame());
  };
  w().state.selection.layer = 0;
  w().state.selection.head = 0;
  for (int head = 1; head < kHeads; ++head) press(GLFW_KEY_RIGHT);
  for (int layer = 1; layer < kLayers; ++layer) press(GLFW_KEY_DOWN);
  for (int i = 0; i < 4; ++i) press(GLFW_KEY_LEFT_BRACKET);
  EXPECT_EQ(w().state.selection.layer, kLayers - 1);
  EXPECT_EQ(w().state.selection.head, kHeads - 1);
  EXPECT_FALSE(w().tiles[0].settled());
  EXPECT_LT(longest, 1.0) << "a replay of all layers takes longer, on the fastest machine too";
  driver_->key(GLFW_KEY_PERIOD, true).settle();
  EXPECT_TRUE(w().tiles[0].stopped());
}

std::string name_of(const testing::TestParamInfo<Screen>& info) {
  return std::to_string(info.param.width) + "at" +
         std::to_string(static_cast<int>(100 * info.param.scale));
}
constexpr Screen kScreens[] = {{1280, 800, 1.0},  {1280, 800, 1.5},  {1600, 1000, 1.0},
                               {1600, 1000, 1.5}, {2560, 1440, 1.0}, {2560, 1440, 1.5}};
INSTANTIATE_TEST_SUITE_P(Screens, DeepModel, testing::ValuesIn(kScreens), name_of);
INSTANTIATE_TEST_SUITE_P(Screens, DeepModelAtWork, testing::Values(kScreens[0]), name_of);

}  // namespace
}  // namespace kvloupe::test

// The window without a mouse: the arrows reach every control that the pointer finds.

#include <imgui_internal.h>

#include "tests/app/fake_demo.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr const char* kLesson = R"(# What a cache holds

Keys and values.

## A budget

```view
{"tiles": [{"view": "filmstrip"}], "budget": "50%"}
```

There are {{tokens | int}} tokens.

```task
Make the budget smaller than 10 %.
when: budget < 0.1
```
)";

struct Keyboard : WindowTest {
  void prepare() override {
    std::filesystem::create_directories(demo_.places().assets / "lessons");
    std::ofstream(demo_.places().assets / "lessons" / "01-cache.md") << kLesson;
    start(1280, 800, window::Workspace::Host{.demo = demo_.places()});
    driver().settle();
  }
  void open_trace() {
    driver().workspace.state = window::default_state();
    const auto path = folder_.path() / "small.h5";
    write_synthetic_trace(path, {.layers = 3, .clusters = 4});
    driver().workspace.open(path.string());
    driver().settle();
    ASSERT_EQ(driver().workspace.notice, "");
  }
  static ImGuiContext& context() { return *ImGui::GetCurrentContext(); }

  ImGuiID after(int key) {
    driver().key(key);
    driver().frame();
    return context().NavId;
  }

  /// Line by line, as a reader goes: from the top down, and on each line to its end and back.
  std::set<ImGuiID> reached_by_arrows() {
    after(GLFW_KEY_DOWN);  // out of a field, which takes the other arrows
    std::set<ImGuiID> above;
    while (above.insert(after(GLFW_KEY_UP)).second) {
    }
    std::set<ImGuiID> reached;
    for (ImGuiID id = context().NavId; id != 0 && reached.insert(id).second;
         id = after(GLFW_KEY_DOWN)) {
      for (const int key : {GLFW_KEY_RIGHT, GLFW_KEY_LEFT}) {
        ImGuiID here = context().NavId;
        for (ImGuiID next = after(key); next != here; next = after(key)) {
          here = next;
          reached.insert(here);
        }
      }
    }
    return reached;
  }

  /// The controls that the pointer finds, and their places. Scroll bars are left out, because they
  /// follow the arrows; so are plots and texts of tokens, which have their own keys for everything.
  std::map<ImGuiID, ImVec2> found_by_pointer(const ImGuiWindow* whole) {
    std::map<ImGuiID, ImVec2> found;
    const ImRect place = whole->OuterRectClipped;
    const auto scale = static_cast<float>(driver().workspace.state.scale);
    const ImVec2 step{12.0F * scale, 8.0F * scale};  // finer than any control is wide and high
    for (float y = place.Min.y + 2; y < place.Max.y; y += step.y) {
      for (float x = place.Min.x + 2; x < place.Max.x; x += step.x) {
        ImGui::GetIO().MousePos = {x, y};
        driver().surface.begin_frame();
        driver().workspace.frame();
        driver().surface.drop_frame();  // nobody looks
        const ImGuiWindow* window = context().HoveredWindow;
        if (context().HoveredId == 0 || context().HoveredIdDisabled || window == nullptr) continue;
        if (context().HoveredId ==
            ImGui::GetWindowScrollbarID(context().HoveredWindow, ImGuiAxis_Y)) {
          continue;
        }
        if (window->RootWindow == whole && (window->Flags & ImGuiWindowFlags_NoNavInputs) == 0)
          found.emplace(context().HoveredId, ImVec2{x, y});
      }
    }
    driver().move(-1, -1);
    return found;
  }

  /// Checks the window that has the keyboard. Returns its name.
  std::string expect_all_reached() {
    driver().frames(2);
    if (context().NavWindow == nullptr) {
      ADD_FAILURE() << "nothing has the keyboard";
      return "";
    }
    const ImGuiWindow* whole = context().NavWindow->RootWindow;
    auto found = found_by_pointer(whole);  // at the top, where lists scroll
    const std::set<ImGuiID> reached = reached_by_arrows();
    EXPECT_EQ(context().NavWindow->RootWindow, whole) << "the arrows left " << whole->Name;
    found.merge(found_by_pointer(whole));  // at the end, where the arrows have scrolled to
    EXPECT_GE(found.size(), 3U) << whole->Name;
    for (const auto& [id, place] : found) {
      EXPECT_TRUE(reached.contains(id))
          << "the control at " << place.x << ", " << place.y << " of " << whole->Name;
    }
    return whole->Name;
  }

  FakeDemo demo_;
};

TEST_F(Keyboard, ArrowsReachEveryControlOfAPanel) {
  open_trace();
  std::set<std::string> panels;
  for (int panel = 1; panel <= 3; ++panel) {
    for (int i = 0; i < panel; ++i) driver().key(GLFW_KEY_F6);
    panels.insert(expect_all_reached());
    driver().key(GLFW_KEY_ESCAPE);
  }
  EXPECT_EQ(panels.size(), 3U);
}

TEST_F(Keyboard, ArrowsReachEveryControlOfALesson) {
  driver().workspace.open_lesson("01-cache");
  driver().settle();
  driver().key(GLFW_KEY_PAGE_DOWN).settle();
  for (int i = 0; i < 4; ++i) driver().key(GLFW_KEY_F6);
  EXPECT_EQ(expect_all_reached(), "##lesson");
}

TEST_F(Keyboard, ArrowsReachEveryControlOfTheStartPage) { expect_all_reached(); }

class KeyboardAtScale : public Keyboard, public testing::WithParamInterface<double> {};

TEST_P(KeyboardAtScale, ArrowsReachEveryControlOfASheetWhichIsInSight) {
  open_trace();
  driver().workspace.state.scale = GetParam();
  driver().settle();
  std::set<std::string> sheets;
  for (const int key : {GLFW_KEY_O, GLFW_KEY_E, GLFW_KEY_N, GLFW_KEY_R}) {
    SCOPED_TRACE(std::string("Ctrl ") + static_cast<char>(key));
    driver().key(key, true).settle();
    sheets.insert(expect_all_reached());
    const ImRect sheet = context().NavWindow->RootWindow->Rect();
    EXPECT_TRUE(ImRect({0, 0}, ImGui::GetIO().DisplaySize).Contains(sheet))
        << sheet.Min.y << " to " << sheet.Max.y;
    driver().key(GLFW_KEY_ESCAPE).key(GLFW_KEY_ESCAPE).settle();
  }
  EXPECT_GE(sheets.size(), 3U);  // a capture and a closed loop share one
}

INSTANTIATE_TEST_SUITE_P(Scales, KeyboardAtScale, testing::Values(1.0, 2.0, 3.0));

}  // namespace
}  // namespace kvloupe::test

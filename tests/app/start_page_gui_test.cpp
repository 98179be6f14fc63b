// The window without a trace, driven by mouse and keys.

#include "analysis/math/sink.h"
#include "tests/app/fake_demo.h"
#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct StartPage : WindowTest {
  void prepare() override { open_window(); }
  void open_window(int width = 1280, int height = 800) {
    start(width, height,
          window::Workspace::Host{.recent_files = demo_.path("recent"), .demo = demo_.places()});
    driver_->settle();
  }

  FakeDemo demo_;
};

TEST_F(StartPage, OpensTheDemoByTheMouse) {
  driver().press_on("##start", {"Open the demo  Ctrl D"});
  EXPECT_TRUE(w().start_page.capturing());
  driver().settle();
  ASSERT_NE(w().results.trace(), nullptr) << w().notice;
  EXPECT_EQ(w().notice, "");
  EXPECT_EQ(w().results.trace()->path().parent_path(), demo_.places().cache);
  EXPECT_THAT(demo_.runs(), SizeIs(1));
  const Trace& trace = *w().results.trace();
  const HeadIndex strongest =
      strongest_sink(sink_strengths(trace, 0, unwatched), trace.model().num_kv_heads);
  EXPECT_EQ(w().state.selection.layer, strongest.layer)
      << "the head that rests most is shown first";
  EXPECT_EQ(w().state.selection.head, strongest.head);
  open_window();
  driver().key(GLFW_KEY_D, true).settle();
  ASSERT_NE(w().results.trace(), nullptr) << w().notice;
  EXPECT_THAT(demo_.runs(), SizeIs(1)) << "it is kept";
}

TEST_F(StartPage, OpensTheDemoByTheKeyboardAlone) {
  driver().key(GLFW_KEY_DOWN);  // the first key shows where the keyboard is
  driver().key(GLFW_KEY_UP).key(GLFW_KEY_SPACE).settle();
  EXPECT_NE(w().results.trace(), nullptr) << w().notice;
}

TEST_F(StartPage, ShowsHowFarTheCaptureIsAndStopsIt) {
  demo_.before("sleep 20");
  driver().key(GLFW_KEY_D, true);
  while (w().start_page.fraction() == 0.0) driver().frame();
  EXPECT_DOUBLE_EQ(w().start_page.fraction(), 0.25);
  EXPECT_FALSE(w().settled());
  driver().press_on("##start", {"Cancel"});
  EXPECT_FALSE(w().start_page.capturing());
  driver().settle();
  EXPECT_EQ(w().results.trace(), nullptr);
  EXPECT_EQ(w().notice, "");
  demo_.before("");
  driver().key(GLFW_KEY_D, true).settle();
  EXPECT_NE(w().results.trace(), nullptr) << w().notice;
}

TEST_F(StartPage, SaysWhyTheDemoCannotBeCaptured) {
  demo_.before("echo 'kvloupe-capture: out of memory; try fewer tokens' >&2; exit 1");
  driver().key(GLFW_KEY_D, true).settle();
  EXPECT_EQ(w().results.trace(), nullptr);
  EXPECT_EQ(w().notice, "Demo: out of memory; try fewer tokens");
  EXPECT_TRUE(w().notice_is_error);
}

TEST_F(StartPage, OffersTheFilesOpenedLastAndANewCapture) {
  open_file(demo_.path("full.h5").string());
  open_window();
  const std::string file = demo_.path("full.h5").string();
  driver().press_on("##start", {file, "##file"}).settle();
  ASSERT_NE(w().results.trace(), nullptr) << w().notice;
  EXPECT_EQ(w().results.trace()->path(), file);
  open_window();
  driver().press_on("##start", {"New capture…  Ctrl N"});
  EXPECT_TRUE(w().sheets.capture_panel.is_open());
  driver().key(GLFW_KEY_ESCAPE).press_on("##start", {"Open…  Ctrl O"});
  EXPECT_TRUE(w().sheets.file_panel.is_open());
}

TEST_F(StartPage, IsWholeAtAnySizeAndInBothThemes) {
  const auto light = driver().picture();
  EXPECT_GT(WindowDriver::colours(light), 10);
  driver().type("t").settle();
  EXPECT_GT(WindowDriver::difference(light, driver().picture(), 0, 0, 1280, 800), 0.8);
  for (const auto& [width, height, scale] :
       {std::tuple{1280, 720, 1.5}, {1024, 768, 1.25}, {640, 480, 1.0}}) {
    open_window(width, height);
    w().state.scale = scale;
    driver().settle();
    EXPECT_TRUE(driver().point_at("##start", {"Open the demo  Ctrl D"})) << width;
  }
}

}  // namespace
}  // namespace kvloupe::test

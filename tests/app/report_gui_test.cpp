// The report of the open study, written from the window.

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

TEST(ReportWindow, SavesTheReportOfTheOpenStudyAsItsViewAsks) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  const TemporaryFolder folder;
  const auto study = write_synthetic_study(folder / "study.sqlite");
  WindowDriver driver(1280, 800);
  window::Workspace& w = driver.workspace;
  const auto choose_save_report = [&] {
    driver.press_on("##MainMenuBar", {"##menubar", "File", ""}).frames(2);
    driver.press_on("##Menu_00", {"Save report…", ""}).frames(2);
  };
  w.open(study.string());
  driver.settle();
  w.state.tiles[0].view = "certificate";
  w.state.tiles[0].choices = {{"measure", "retained_mass"}, {"at-most", "0.75"}};
  driver.settle();
  choose_save_report();
  ASSERT_TRUE(w.sheets.file_panel.is_open());
  driver.key(GLFW_KEY_ENTER);  // report.html, beside the results
  driver.settle();
  driver.frames(3);
  EXPECT_THAT(w.notice, HasSubstr("Written: "));
  EXPECT_FALSE(w.notice_is_error);
  const std::string html = file_text(folder / "report.html");
  EXPECT_THAT(html, HasSubstr("(1 − retained_mass) on new prompts is then at most 0.75"));

  // A second file does not end the first.
  window::ReportJob both;
  for (const char* name : {"two.html", "two.pdf"})
    both.start(w.context(), (folder / name).string());
  for (int i = 0; i < 20000 && both.writing(); ++i) {
    driver.frame();
    both.follow(w.context());
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "two.html"));
  EXPECT_TRUE(std::filesystem::exists(folder / "two.pdf"));

  // Another ending is refused before any work.
  choose_save_report();
  driver.key(GLFW_KEY_END).type("x").key(GLFW_KEY_ENTER).frames(3);
  EXPECT_THAT(w.notice, HasSubstr("must end in .html or .pdf"));
  EXPECT_TRUE(w.notice_is_error);
}

TEST(ReportWindow, SavesTheTraceAndAFindingAsPages) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  const TemporaryFolder folder;
  write_synthetic_trace(folder / "trace.h5");
  WindowDriver driver(1280, 800);
  window::Workspace& w = driver.workspace;
  w.open((folder / "trace.h5").string());
  driver.settle();
  driver.press_on("##MainMenuBar", {"##menubar", "File", ""}).frames(2);
  driver.press_on("##Menu_00", {"Save as page…", ""}).frames(2);
  ASSERT_TRUE(w.sheets.file_panel.is_open());
  driver.key(GLFW_KEY_ENTER);  // page.html, beside the trace
  driver.settle();
  driver.frames(3);
  EXPECT_THAT(w.notice, HasSubstr("Written: "));
  EXPECT_THAT(file_text(folder / "page.html"),
              AllOf(HasSubstr("kvloupe page "), HasSubstr("keydiff,h2o"), HasSubstr("10%,25%,50%")));
  w.state.followed = "5-7";
  driver.press_on("##MainMenuBar", {"##menubar", "File", ""}).frames(2);
  driver.press_on("##Menu_00", {"Save finding…", ""}).frames(2);
  driver.key(GLFW_KEY_ENTER);  // finding.html, beside the trace
  driver.settle();
  driver.frames(3);
  EXPECT_THAT(w.notice, HasSubstr("Written: "));
  EXPECT_THAT(file_text(folder / "finding.html"),
              AllOf(HasSubstr("<h1>Tokens 5–7 under keydiff"), HasSubstr("kvloupe follow ")));
}

}  // namespace
}  // namespace kvloupe::test

// The sheet that makes and runs a study, from the key to the results in the window.

#include <GLFW/glfw3.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::test {
namespace {

using testing::HasSubstr;

TEST(StudyPanel, LeadsFromTheOpenTraceToResults) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    SyntheticTraceOptions options;
    options.seed = static_cast<std::uint64_t>(i) + 1;
    options.layers = 2;
    write_synthetic_trace(folder / ("t" + std::to_string(i) + ".h5"), options);
  }
  WindowDriver driver(1280, 800);
  window::Workspace& w = driver.workspace;
  w.open((folder / "t0.h5").string());
  driver.settle();
  w.state.policy_a = parse_policy("lagkv");
  const auto before = driver.picture();
  driver.key(GLFW_KEY_N, true, true);
  driver.frames(3);
  window::StudyPanel& sheet = w.sheets.study_panel;
  ASSERT_TRUE(sheet.is_open());
  EXPECT_EQ(sheet.options.traces, (folder / "*.h5").string());
  EXPECT_EQ(sheet.options.policies, "lagkv, keydiff, snapkv, h2o, tova, sink")
      << "the policy in hand stands first";
  EXPECT_GT(WindowDriver::difference(before, driver.picture(), 400, 150, 900, 450), 0.1);

  // A study file of somebody else's stays, and the sheet says so.
  sheet.options.policies = "h2o, keydiff";
  sheet.options.budgets = "20%, 40%, 60%";
  std::ofstream(folder / "study.json") << "{}";
  const auto wait = [&] {
    for (int i = 0; i < 2000 && sheet.running(); ++i) driver.frame();
    driver.frames(2);
  };
  sheet.start();
  wait();
  EXPECT_TRUE(sheet.is_open()) << "so that it can be mended";
  EXPECT_FALSE(std::filesystem::exists(sheet.options.results));

  sheet.options.results = (folder / "own.sqlite").string();
  sheet.start();
  wait();
  driver.settle();
  EXPECT_FALSE(sheet.is_open());
  EXPECT_THAT(w.notice, HasSubstr("12 items done"));
  EXPECT_TRUE(std::filesystem::exists(folder / "own.json"));
  ASSERT_NE(w.tiles[0].scene(), nullptr) << w.tiles[0].error();
  EXPECT_THAT(w.state.tiles[0].view, HasSubstr("study"));

  // From the results to a table for an engine.
  w.state.budget = parse_budget("40%");
  w.state.policy_a = parse_policy("keydiff");
  driver.press_on("##MainMenuBar", {"##menubar", "File", ""});
  driver.frames(2);
  driver.press_on("##Menu_00", {"Save entries by head…", ""});
  driver.frames(2);
  ASSERT_TRUE(w.sheets.file_panel.is_open());
  driver.key(GLFW_KEY_ENTER);  // heads.csv, beside the results
  driver.settle();
  driver.frames(3);
  EXPECT_FALSE(w.notice_is_error);
  EXPECT_THAT(w.notice, HasSubstr("Use it with keydiff+headbudgets("));
  std::ifstream table(folder / "heads.csv");
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "layer,head,value");
  int rows = 0;
  double sum = 0.0;
  while (std::getline(table, line)) {
    ++rows;
    sum += std::stod(line.substr(line.rfind(',') + 1));
  }
  EXPECT_EQ(rows, 4);
  EXPECT_NEAR(sum / rows, 1.0, 0.02) << "shares of the budget";
}

}  // namespace
}  // namespace kvloupe::test

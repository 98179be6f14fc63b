// The sheet that makes and runs a study, from the key to the results in the window.

#include <GLFW/glfw3.h>

#include "analysis/base/system/child_process.h"
#include "app/figure/figures/of_study.h"
#include "app/job/assets.h"
#include "app/window/state/jobs.h"
#include "tests/app/virtual_display.h"
#include "tests/app/window_driver.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

TEST(StudyPanel, LeadsFromTheOpenTraceToResults) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    SyntheticTraceOptions options{.layers = 2, .seed = static_cast<std::uint64_t>(i) + 1};
    write_synthetic_trace(folder / ("t" + std::to_string(i) + ".h5"), options);
  }
  WindowDriver driver(1280, 800);
  window::Workspace& w = driver.workspace;
  w.open((folder / "t0.h5").string());
  driver.settle();
  w.state.policy_a = parse_policy("lagkv");
  const auto before = driver.picture();
  driver.key(GLFW_KEY_N, true, true).settle();
  window::StudyPanel& sheet = w.sheets.study_panel;
  ASSERT_TRUE(sheet.is_open());
  EXPECT_EQ(sheet.options.traces, (folder / "*.h5").string());
  EXPECT_EQ(sheet.options.policies,
            "lagkv, keydiff, snapkv(pool=max,range=candidates), h2o+recent(50%), tova(layer), sink")
      << "the policy in hand stands first, then the published ones";
  EXPECT_EQ(sheet.options.block, std::to_string(w.results.trace()->run().block_size));
  EXPECT_EQ(sheet.options.model, "") << "the demo model did not make this trace";
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
  EXPECT_FALSE(fs::exists(sheet.options.results));

  sheet.options.results = (folder / "own.sqlite").string();
  sheet.start();
  wait();
  driver.settle();
  EXPECT_FALSE(sheet.is_open());
  EXPECT_THAT(w.notice, HasSubstr("12 items done"));
  EXPECT_TRUE(fs::exists(folder / "own.json"));
  ASSERT_NE(w.tiles[0].scene(), nullptr) << w.tiles[0].error();
  EXPECT_THAT(w.state.tiles[0].view, HasSubstr("study"));

  // From the results to a table for an engine.
  w.state.budget = parse_budget("40%");
  w.state.policy_a = parse_policy("keydiff");
  driver.press_on("##MainMenuBar", {"##menubar", "File", ""}).frames(2);
  driver.press_on("##Menu_00", {"Save entries by head…", ""}).frames(2);
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

TEST(StudyPanel, BesideTheDemoItsFilesGoWhereOneLooks) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  const TemporaryFolder folder;
  fs::create_directories(folder / "kept" / "cases");
  write_synthetic_trace(folder / "kept" / "cases" / "t.h5");
  window::Workspace::Host host;
  host.demo.cache = folder / "kept";
  WindowDriver driver(1280, 800, host);
  window::Workspace& w = driver.workspace;
  w.open((folder / "kept" / "cases" / "t.h5").string());
  driver.settle();
  w.perform(window::Command::new_study);
  w.perform(window::Command::new_capture);
  driver.settle();
  const std::string here = fs::current_path().string();
  EXPECT_EQ(w.sheets.study_panel.options.results, here + "/study.sqlite");
  EXPECT_EQ(w.sheets.capture_panel.options.output, here + "/capture.h5");
}

TEST(StudyPanel, WhyKnowsTheModelThatAStudyOfTheWindowRan) {
  if (const std::string problem = need_display(); !problem.empty()) GTEST_SKIP() << problem;
  if (find_program("kvloupe-capture").empty()) GTEST_SKIP() << "kvloupe-capture is not built";
  const TemporaryFolder folder;
  // Not in the place of the demo model, which is known anyway.
  fs::create_directory(folder / "own");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.model"})
    fs::copy(fs::path(window::demo_model_folder()) / file, folder / "own" / file);
  std::ofstream(folder / "own" / "config.json", std::ios::app) << "\n";  // another model
  fs::create_directory(folder / "texts");
  std::ofstream(folder / "texts" / "one.txt")
      << std::ifstream(job::find_asset("prompts/needle.txt")).rdbuf() << "\n@@answer\n12345\n";
  window::Workspace::Host host;
  host.demo.cache = folder / "cache";
  WindowDriver driver(1280, 800, host);
  window::Workspace& w = driver.workspace;
  w.perform(window::Command::new_study);
  driver.settle();
  job::StudyOptions& o = w.sheets.study_panel.options;
  o.replays = false;
  o.in_model = true;
  o.model = (folder / "own").string();
  o.prompts = (folder / "texts").string();
  o.policies = "sink";
  o.budgets = "50%";
  o.block = "64";
  o.results = (folder / "s.sqlite").string();
  w.sheets.study_panel.start();
  w.sheets.study_panel.close();  // an error is told then
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(4);
  while (w.sheets.study_panel.running() && std::chrono::steady_clock::now() < end) driver.frame();
  driver.frames(3);
  driver.settle();
  ASSERT_THAT(w.notice, HasSubstr("items done"));
  EXPECT_THAT(w.models.folders(), Contains((folder / "own").string()))
      << "New capture offers the model";
  const auto study = w.results.evaluation(Evaluation::Task::study);
  ASSERT_NE(study, nullptr);
  EXPECT_EQ(figure::results_text(*study), "s.sqlite · own · 1 prompt");
  // Results that another window made know the place of their model by themselves.
  w.models = window::KnownModels({});
  w.sheets.cause_card.open(study, 1, {400, 200});
  driver.frames(2);
  driver.press_on("##cause", {"1", "Why?"}).settle();
  ASSERT_NE(w.results.trace(), nullptr) << w.notice;
  EXPECT_EQ(w.state.policy_a.text(), "sink");
}

}  // namespace
}  // namespace kvloupe::test

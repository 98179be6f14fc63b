// Ctrl R: the model that made the open trace is found, looked at and run again with a policy in its
// cache, without a word being typed.

#include <imgui_internal.h>

#include "analysis/base/system/child_process.h"
#include "analysis/trace/model_files.h"
#include "app/window/panels/panels.h"
#include "app/window/state/jobs.h"
#include "tests/app/window_test.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct ClosedLoopSheet : WindowTest {
  window::CapturePanel& sheet() { return driver_->workspace.sheets.capture_panel; }
  const window::CaptureOptions& options() { return sheet().options; }

  void until(const std::function<bool()>& done, const char* what) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << what;
      driver_->frame();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    driver_->frames(3);
  }
  void until_looked() {
    // First for the folder, then at what it holds.
    for (int i = 0; i < 2; ++i) {
      driver_->frames(3);
      until([&] { return !sheet().looking(); }, "the model is still looked for");
    }
  }
  /// A trace that a folder with a model of its own made, as far as its fingerprint says.
  fs::path trace_of(const fs::path& model) {
    write_synthetic_trace(folder_ / "made.h5", {});
    write_model_attribute(folder_ / "made.h5", "fingerprint", model_fingerprint(model, unwatched));
    return folder_ / "made.h5";
  }
  fs::path make_model(const char* name, const char* weights) {
    const fs::path model = folder_ / name;
    fs::create_directories(model);
    std::ofstream(model / "config.json") << "{}";
    std::ofstream(model / "model.safetensors") << weights;
    return model;
  }
};

TEST_F(ClosedLoopSheet, RunsTheDemoModelAgainWithoutTyping) {
  const std::string program = find_program("kvloupe-capture");
  if (program.empty()) GTEST_SKIP() << "kvloupe-capture is not built";
  const fs::path demo = window::demo_model_folder();
  ASSERT_FALSE(demo.empty());
  const fs::path trace = folder_ / "demo.h5";
  const auto made = run_child({program, "run", "--model", demo.string(), "--text",
                               "The fox and the owl went to the market.", "--generate", "4",
                               "--block", "4", "--output", trace.string()},
                              unwatched, [](const std::string&) {});
  ASSERT_EQ(made.exit_code, 0) << made.last_error;
  open_and_settle(trace);
  const auto ids = w().results.trace()->tokens().ids;
  w().state.policy_a = parse_policy("h2o");
  w().state.budget = parse_budget("6");

  driver_->key(GLFW_KEY_R, true);
  until_looked();
  ASSERT_TRUE(sheet().is_open());
  EXPECT_EQ(options().model, demo.string());
  EXPECT_EQ(sheet().mismatch(), "");
  driver_->key(GLFW_KEY_ENTER);
  EXPECT_TRUE(sheet().running());
  driver_->frames(2);
  const bool busy = sheet().busy();
  EXPECT_FALSE(busy && sheet().running()) << "a run is not waited for";
  until([&] { return !sheet().running(); }, "the model still runs");
  driver_->settle();
  EXPECT_FALSE(sheet().is_open());
  ASSERT_NE(w().results.trace(), nullptr);
  EXPECT_EQ(w().results.trace()->run().policy, "h2o");
  EXPECT_EQ(w().results.trace()->run().budget, 6);
  EXPECT_EQ(w().results.trace()->tokens().ids, ids) << "the tokens are given";
  const GivenTokens& given = w().results.given();
  EXPECT_EQ(given.range.end - given.range.first, 4);
  EXPECT_FALSE(given.own_ids.empty()) << "and the model writes its own answer";
  EXPECT_THAT(w().notice, HasSubstr("The model's own answer: "));
  EXPECT_THAT(w().models.folders_of(stored_model_fingerprint(w().results.trace()->path())),
              ElementsAre(demo.string()))
      << "and the folder is remembered";
}

TEST_F(ClosedLoopSheet, FindsAModelThatMadeATraceBefore) {
  const fs::path mine = make_model("mine", "mine");
  const fs::path other = make_model("other", "other");
  open_and_settle(trace_of(mine));
  w().models.add(stored_model_fingerprint(w().results.trace()->path()), mine);
  w().models.add("v1:" + std::string(64, '0'), other);
  driver_->key(GLFW_KEY_R, true);
  until_looked();
  EXPECT_EQ(options().model, mine.string());
  EXPECT_EQ(sheet().mismatch(), "");
}

TEST_F(ClosedLoopSheet, SaysBeforeTheRunThatAFolderHoldsAnotherModel) {
  const fs::path mine = make_model("mine", "mine");
  const fs::path other = make_model("other", "other");
  open_and_settle(trace_of(mine));
  driver_->key(GLFW_KEY_R, true);
  until_looked();
  EXPECT_EQ(options().model, "") << "nothing known here made it";
  sheet().options.model = other.string();
  until_looked();
  EXPECT_THAT(sheet().mismatch(), HasSubstr(other.string() + ": this model is not the "));
  driver_->key(GLFW_KEY_ENTER);
  EXPECT_FALSE(sheet().running()) << "not by the way";
  sheet().options.model = mine.string();
  until_looked();
  EXPECT_EQ(sheet().mismatch(), "");
}

TEST_F(ClosedLoopSheet, ATraceThatNamesNoModelLeavesTheFolderOfTheLastCapture) {
  const fs::path other = make_model("other", "other");
  write_synthetic_trace(folder_ / "old.h5", {});
  open_and_settle(folder_ / "old.h5");
  sheet().options.model = other.string();
  driver_->key(GLFW_KEY_R, true);
  until_looked();
  EXPECT_EQ(options().model, other.string());
  EXPECT_EQ(sheet().mismatch(), "");
}

TEST_F(ClosedLoopSheet, ButtonsStayWhileTheSheetFindsOutWhatARunTakes) {
  const std::string program = find_program("kvloupe-capture");
  if (program.empty()) GTEST_SKIP() << "kvloupe-capture is not built";
  write_synthetic_trace(folder_ / "old.h5", {.text = false});  // tokens of no known tokenizer
  open_and_settle(folder_ / "old.h5");
  for (const double scale : {1.0, 1.5, 2.0, 3.0}) {
    SCOPED_TRACE(scale);
    w().state.scale = scale;
    driver_->settle();
    sheet().options.model.clear();
    driver_->key(GLFW_KEY_R, true).settle();
    ASSERT_TRUE(sheet().is_open());
    ASSERT_EQ(sheet().forecast(), "") << "without a model there is nothing to ask";
    const auto height = [] { return ImGui::FindWindowByName("##capture")->ContentSize.y; };
    const float before = height();
    sheet().options.model = window::demo_model_folder();
    sheet().options.output += std::to_string(scale);  // so that the program is asked anew
    driver_->frames(2);
    until(
        [&] {
          EXPECT_EQ(height(), before) << sheet().forecast();
          return w().settled();
        },
        "the sheet does not come to rest");
    EXPECT_THAT(sheet().forecast(), HasSubstr("the trace will take about"));
    EXPECT_EQ(height(), before) << sheet().forecast();
    sheet().close();
  }
}

TEST_F(ClosedLoopSheet, AClosedLoopTraceIsShownWithItsPolicy) {
  write_synthetic_closed_loop(folder_ / "closed.h5", {}, "h2o", 40);
  window::WorkspaceState other = w().state;
  w().state.block = 16;  // another than the run's
  open_and_settle(folder_ / "closed.h5");
  const auto prompt = w().results.trace()->run().prompt_length;
  EXPECT_EQ(w().state.policy_a.text(), "h2o");
  EXPECT_EQ(w().state.budget.resolve(prompt), 40);
  EXPECT_EQ(w().shown.error(0), "");
  EXPECT_EQ(window::loop_badge(w().context()).text, "closed loop");
  EXPECT_TRUE(window::loop_badge(w().context()).exact);
  w().state.budget = parse_budget("41");
  driver_->settle();
  EXPECT_EQ(window::loop_badge(w().context()).text, "states of h2o's run");
  EXPECT_FALSE(window::loop_badge(w().context()).exact);
  other.policy_a = parse_policy("sink");
  w().restore(other, w().results.trace());
  driver_->settle();
  EXPECT_EQ(w().state.policy_a.text(), "sink") << "a session has its own";
  EXPECT_EQ(window::loop_badge(w().context()).text, "states of h2o's run");
}

TEST_F(ClosedLoopSheet, QuittingSaysFirstWhatWouldEnd) {
  const fs::path slow = folder_ / "slow";
  std::ofstream(slow) << "#!/bin/sh\nexec sleep 60\n";
  fs::permissions(slow, fs::perms::owner_all);
  driver_->settle();
  sheet().options.program = slow.string();
  sheet().options.model = make_model("mine", "mine").string();
  sheet().options.prompt = window::CaptureOptions::Prompt::text;
  sheet().options.text = "words";
  sheet().options.output = folder_ / "made.h5";
  sheet().start();
  driver_->frames(2);
  ASSERT_TRUE(sheet().running());
  driver_->key(GLFW_KEY_Q, true);
  EXPECT_FALSE(driver_->asked_to_close);
  EXPECT_THAT(w().notice, HasSubstr("again ends the capture that runs"));
  driver_->key(GLFW_KEY_Q, true);
  EXPECT_TRUE(driver_->asked_to_close);
  sheet().cancel();
  EXPECT_TRUE(w().may_quit()) << "nothing runs any more";
}

TEST_F(ClosedLoopSheet, ANewCaptureBeginsWithTheDemoModel) {
  driver_->settle();
  driver_->key(GLFW_KEY_N, true).frames(3);
  EXPECT_EQ(options().model, window::demo_model_folder());
}

}  // namespace
}  // namespace kvloupe::test

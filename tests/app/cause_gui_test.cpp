// From a red cell of the needle grid to the eviction behind it in three clicks, with the real
// model.

#include "analysis/base/system/child_process.h"
#include "analysis/replay/follow_json.h"
#include "app/window/state/jobs.h"
#include "tests/app/window_test.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct Cause : WindowTest {
  void prepare() override {
    const std::string program = find_program("kvloupe-capture");
    if (program.empty()) GTEST_SKIP() << "kvloupe-capture is not built";
    results_ = folder_ / "needle.json";
    const auto made = run_child({program,      "eval",   "--model",    window::demo_model_folder(),
                                 "--task",     "needle", "--policies", "sink",
                                 "--budgets",  "20%",    "--lengths",  "300",
                                 "--depths",   "30,60",  "--samples",  "2",
                                 "--block",    "64",     "--dtype",    "f32",
                                 "--progress", "none",   "--output",   results_.string()},
                                unwatched, [](const std::string&) {});
    ASSERT_EQ(made.exit_code, 0) << made.last_error;
    window::Workspace::Host host;
    host.demo.cache = folder_ / "cache";
    start(1280, 800, host);
    driver_->workspace.open(results_.string());
    driver_->settle();
  }

  /// Clicks the cell of the needle grid whose first run this is.
  void click_cell(int run) {
    const window::Tile& tile = w().tiles[0];
    ASSERT_NE(tile.scene(), nullptr) << tile.error();
    for (const figure::PickRegion& region : tile.scene()->regions) {
      if (region.target.run != run) continue;
      const auto [x, y] = on_screen(region.rect.centre());
      driver_->click(x, y).frames(3);
      return;
    }
    FAIL() << "no cell of run " << run;
  }

  fs::path results_;
};

TEST_F(Cause, OfAMissedNeedleIsThreeClicksAway) {
  const Evaluation evaluation = read_evaluation(results_);
  EXPECT_FALSE(evaluation.fingerprint.empty());
  // A prompt that the full cache answers and the policy does not.
  int missed = -1, first = -1;
  for (std::size_t i = 0; i < evaluation.runs.size() && missed < 0; ++i) {
    const EvaluationRun& run = evaluation.runs[i];
    if (run.policy == "full" || run.correct > 0.5) continue;
    const auto same = [&](const EvaluationRun& other) {
      return other.depth == run.depth && other.sample == run.sample;
    };
    const bool full_finds =
        std::any_of(evaluation.runs.begin(), evaluation.runs.end(), [&](const auto& other) {
          return other.policy == "full" && same(other) && other.correct > 0.5;
        });
    if (full_finds) missed = static_cast<int>(i);
  }
  ASSERT_GE(missed, 0) << "sink finds every needle";
  const EvaluationRun& run = evaluation.runs[missed];
  for (std::size_t i = 0; i < evaluation.runs.size() && first < 0; ++i) {
    const EvaluationRun& other = evaluation.runs[i];
    if (other.policy == run.policy && other.depth == run.depth) first = static_cast<int>(i);
  }
  EXPECT_THAT(w().tiles[0].figure()->figure->value_text({.run = first}),
              HasSubstr(" of 2 found (95 %: "));

  click_cell(first);
  ASSERT_TRUE(w().sheets.cause_card.is_open());

  driver_->press_on("##cause", {std::to_string(missed), "Why?"}).settle();
  const auto trace = w().results.trace();
  ASSERT_NE(trace, nullptr) << w().notice;
  EXPECT_FALSE(trace->run().closed_loop());
  EXPECT_EQ(trace->run().block_size, 64);
  EXPECT_EQ(trace->run().dtype, "f32");
  EXPECT_EQ(static_cast<double>(trace->run().prompt_length), run.tokens);
  EXPECT_EQ(w().state.policy_a.text(), "sink");
  EXPECT_EQ(w().state.budget.text(), "20%");
  EXPECT_EQ(w().state.followed, "needle");
  EXPECT_EQ(w().state.grid_measure, "followed");
  // The head that `kvloupe follow` lists first is selected.
  ReplayRequest wanted{.policy = w().state.policy_a,
                       .budget = w().state.budget.resolve(trace->run().prompt_length)};
  const FollowedHead blamed =
      follow_tokens(*trace, wanted, named_tokens(*trace, "needle"), unwatched).heads.front();
  EXPECT_EQ(w().state.selection.layer, blamed.reads.layer);
  EXPECT_EQ(w().state.selection.head, blamed.reads.head);
  EXPECT_EQ(w().state.tiles[0].view, "needle-grid");
  EXPECT_EQ(w().state.tiles[1].view, "follow");
  EXPECT_EQ(w().tiles[0].error(), "");
  EXPECT_EQ(w().tiles[1].error(), "");
  // The closed loop over the same tokens is at hand.
  const auto loop = w().results.other_loop();
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->run().policy, "sink");
  EXPECT_EQ(loop->tokens().ids, trace->tokens().ids);

  driver_->press_on("##cause", {"Search for a rescue"}).settle();
  EXPECT_EQ(w().notice, "");
  ASSERT_EQ(w().state.tile_count, 3);
  EXPECT_EQ(w().state.tiles[2].view, "rescue");
  EXPECT_EQ(w().tiles[2].error(), "");
  EXPECT_EQ(w().tiles[0].error(), "") << "the grid is still there";
  const auto rescue = w().results.rescue();
  ASSERT_NE(rescue, nullptr);
  EXPECT_EQ(rescue->rescue->policy, "sink");
  EXPECT_EQ(rescue->rescue->tokens, named_tokens(*trace, "needle"));
  EXPECT_THAT(rescue->rescue->expected, HasSubstr(run.expected));
  EXPECT_FALSE(rescue->rescue->policy_right);

  driver_->press_on("##cause", {"Copy finding"});
  const std::string copied = ImGui::GetClipboardText();
  EXPECT_THAT(copied, HasSubstr("Under sink with "));
  EXPECT_THAT(copied, HasSubstr(fmt::format("matters most in heads {}.{} (", blamed.reads.layer,
                                            blamed.reads.head)));
  EXPECT_THAT(copied, HasSubstr("Run with the policy, the model says"));
  EXPECT_THAT(copied, HasSubstr("\nkvloupe follow "));
  EXPECT_THAT(copied, HasSubstr("\nkvloupe-capture rescue --model "));
  EXPECT_EQ(std::count(copied.begin(), copied.end(), '\n'), 5);

  // A search that can find nothing ends, and asks before it goes on. Here the file says that the
  // needle in all heads does not help.
  auto json = nlohmann::ordered_json::parse(std::ifstream(rescue->path));
  for (auto& [spec, one] : json["runs"].items()) {
    if (spec.starts_with("sink+keep(") && spec.find("heads=") == std::string::npos)
      one["right"] = false;
  }
  std::ofstream(rescue->path) << json;
  driver_->key(GLFW_KEY_ESCAPE);
  click_cell(first);
  driver_->press_on("##cause", {std::to_string(missed), "Why?"}).settle();
  driver_->frames(3);  // the card grows
  driver_->press_on("##cause", {"Search for a rescue"}).settle();
  EXPECT_TRUE(w().results.rescue()->rescue->stopped);
  driver_->frames(3);
  driver_->press_on("##cause", {"Run other heads alone, too"}).settle();
  EXPECT_FALSE(w().results.rescue()->rescue->stopped);

  // Another trace may be looked at in between.
  const auto again = w().results.trace();
  write_synthetic_trace(folder_ / "other.h5", {});
  open_file(folder_ / "other.h5");
  EXPECT_NE(w().results.trace(), again);
  EXPECT_TRUE(w().sheets.cause_card.is_open());
  driver_->press_on("##cause", {"Come back"}).settle();
  EXPECT_EQ(w().results.trace(), again);
  EXPECT_EQ(w().state.policy_a.text(), "sink");

  driver_->key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(w().sheets.cause_card.is_open());
}

TEST_F(Cause, OfAStudysRunIsFoundAsThatOfAnEvaluation) {
  const fs::path study = folder_ / "study.sqlite";
  std::ofstream(folder_ / "study.json")
      << R"({"model": ")" << window::demo_model_folder() << R"(", "dtype": "f32", "blocks": [64],
             "policies": ["sink"], "budgets": ["20%"],
             "tasks": [{"task": "needle", "lengths": [300], "depths": [30]}]})";
  const auto made = run_child({find_program("kvloupe-capture"), "study",
                               (folder_ / "study.json").string(), "-o", study.string()},
                              unwatched, [](const std::string&) {});
  ASSERT_EQ(made.exit_code, 0) << made.last_error;
  open_file(study);
  w().state.tiles[0].view = "study-prompts";
  driver_->settle();
  ASSERT_EQ(w().tiles[0].error(), "");
  click_cell(1);  // item 0 is the full cache's run
  ASSERT_TRUE(w().sheets.cause_card.is_open());
  const bool missed = read_evaluation(study).runs.at(1).correct < 0.5;
  driver_->press_on("##cause", {"1", missed ? "Why?" : "Open"}).settle();
  EXPECT_EQ(w().sheets.cause_card.error(), "");
  const auto trace = w().results.trace();
  ASSERT_NE(trace, nullptr) << w().notice;
  EXPECT_EQ(trace->run().block_size, 64);
  EXPECT_EQ(trace->run().dtype, "f32");
  EXPECT_EQ(w().state.policy_a.text(), "sink");
  EXPECT_EQ(w().state.followed, "needle");
  EXPECT_EQ(w().state.tiles[1].view, "follow");
  EXPECT_EQ(w().tiles[1].error(), "");
  ASSERT_NE(w().results.other_loop(), nullptr);
  EXPECT_EQ(w().results.other_loop()->run().policy, "sink");
}

TEST_F(Cause, AModelThatIsNotKnownIsSaidAndNothingIsOpened) {
  const std::string text = file_text(results_);
  std::string changed = text;
  const std::size_t at = changed.find("\"fingerprint\":\"") + 15;
  ASSERT_GT(at, 20U);
  changed[at] = changed[at] == '0' ? '1' : '0';
  std::ofstream(folder_ / "other.json") << changed;
  open_file(folder_ / "other.json");
  click_cell(1);
  ASSERT_TRUE(w().sheets.cause_card.is_open());
  const bool wrong = driver_->point_at("##cause", {"1", "Why?"});
  driver_->press_on("##cause", {"1", wrong ? "Why?" : "Open"}).settle();
  EXPECT_EQ(w().results.trace(), nullptr);
  EXPECT_TRUE(w().sheets.cause_card.is_open());
  EXPECT_THAT(w().sheets.cause_card.error(), HasSubstr("is not known"));
}

}  // namespace
}  // namespace kvloupe::test

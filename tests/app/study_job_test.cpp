// A study made in the window: its file, its command, and runs of the program itself.

#include "app/job/study_job.h"
#include "analysis/study/study.h"
#include "analysis/study/study_results.h"
#include "tests/support/test.h"

namespace kvloupe::job {
namespace {

struct StudyJob : testing::Test {
  void SetUp() override {
    options_.traces = (folder_ / "*.h5").string();
    options_.policies = "h2o, snapkv(pool=max)+recent(10%)";
    options_.budgets = "30% ,16";
    options_.block = "capture";
    options_.results = (folder_ / "out.sqlite").string();
  }
  void write_traces(int count) {
    for (int i = 0; i < count; ++i) {
      test::SyntheticTraceOptions options{.layers = 1, .seed = static_cast<std::uint64_t>(i) + 1};
      test::write_synthetic_trace(folder_ / ("t" + std::to_string(i) + ".h5"), options);
    }
  }
  int done() const {
    int count = 0;
    StudyResults results(options_.results);
    for (const StudyResults::Item& item : results.items()) count += item.state == "done" ? 1 : 0;
    return count;
  }
  test::TemporaryFolder folder_;
  StudyOptions options_;
  Progress progress_;
};

TEST_F(StudyJob, TheFileSaysWhatTheFormSays) {
  write_traces(2);
  std::ofstream(study_file(options_)) << study_text(options_);
  const Study study = read_study(study_file(options_));
  ASSERT_EQ(study.traces.size(), 2U);
  EXPECT_EQ(study.traces[0].name, "t0.h5") << "from the study's folder, so that both can be moved";
  ASSERT_EQ(study.policies.size(), 2U);
  EXPECT_EQ(study.policies[1].text(), "snapkv(pool=max)+recent");
  ASSERT_EQ(study.budgets.size(), 2U);
  EXPECT_EQ(study.budgets[0].text(), "30%");
  EXPECT_EQ(study.budgets[1].text(), "16");
  EXPECT_THAT(study.blocks, ElementsAre(0));
  options_.block = "64, all";
  EXPECT_EQ(nlohmann::json::parse(study_text(options_))["blocks"], nlohmann::json({64, "all"}));
  options_.traces = (folder_ / "t1.h5").string() + ", " + (folder_ / "t0.h5").string();
  EXPECT_EQ(nlohmann::json::parse(study_text(options_))["traces"],
            nlohmann::json({"t1.h5", "t0.h5"}));
}

TEST_F(StudyJob, AStudyOfRunsNamesModelAndPrompts) {
  options_.replays = false;
  options_.in_model = true;
  options_.model = (folder_ / "model").string();
  options_.prompts = "/elsewhere/prompts.jsonl";
  auto study = nlohmann::json::parse(study_text(options_));
  EXPECT_EQ(study["model"], "model");
  EXPECT_FALSE(study.contains("chat"));
  options_.chat = true;
  EXPECT_EQ(nlohmann::json::parse(study_text(options_))["chat"], true);
  EXPECT_EQ(study["tasks"][0]["prompts"][0], "/elsewhere/prompts.jsonl");
  EXPECT_FALSE(study.contains("traces"));
  options_.replays = true;
  study = nlohmann::json::parse(study_text(options_));
  EXPECT_TRUE(study.contains("traces") && study.contains("tasks")) << "one file for both";
  EXPECT_THAT(study_command(options_, true, "kvloupe-capture"),
              ElementsAre("kvloupe-capture", "study", study_file(options_), "--output",
                          options_.results, "--progress", "json"));
}

TEST_F(StudyJob, SaysWhatIsMissing) {
  EXPECT_THAT(study_problem(options_), IsEmpty());
  const auto with = [&](auto change) {
    StudyOptions o = options_;
    change(o);
    return study_problem(o);
  };
  EXPECT_THAT(with([](auto& o) { o.policies = "h2o, snapkw"; }), HasSubstr("snapkw"));
  EXPECT_THAT(with([](auto& o) { o.policies.clear(); }), HasSubstr("policies"));
  EXPECT_THAT(with([](auto& o) { o.budgets = " , "; }), HasSubstr("budgets"));
  EXPECT_THAT(with([](auto& o) { o.budgets = "half"; }), HasSubstr("half"));
  EXPECT_THAT(with([](auto& o) { o.budgets = "12MB"; }), HasSubstr("bytes"));
  for (const char* blocks : {"0", "", "64, capture", "64, x"})
    EXPECT_THAT(with([&](auto& o) { o.block = blocks; }), HasSubstr("blocks")) << blocks;
  EXPECT_THAT(with([](auto& o) { o.block = "64, all"; }), IsEmpty());
  EXPECT_THAT(with([](auto& o) { o.replays = false; }), HasSubstr("replays, answers, or both"));
  EXPECT_THAT(with([](auto& o) { o.results = "out.csv"; }), HasSubstr(".sqlite"));
  EXPECT_THAT(with([](auto& o) { o.traces.clear(); }), HasSubstr("traces"));
  EXPECT_THAT(with([](auto& o) { o.in_model = true; }), HasSubstr("model"));
}

TEST_F(StudyJob, SaysHowMuchItIsBeforeItStarts) {
  EXPECT_THAT(study_size(options_), HasSubstr("no trace there"));
  write_traces(1);
  EXPECT_EQ(study_size(options_), "1 trace × 2 policies × 2 budgets");
  options_.in_model = true;
  options_.prompts = (folder_ / "p.jsonl").string();
  options_.block = "64, all";
  std::ofstream(options_.prompts) << "{}\n\n{}\n";
  EXPECT_EQ(study_size(options_), "(1 trace + 2 prompts) × 2 policies × 2 budgets × 2 blocks");
  options_.replays = false;
  options_.block = "64";
  EXPECT_EQ(study_size(options_), "2 prompts × 2 policies × 2 budgets");
}

TEST_F(StudyJob, AFolderOfTextsBecomesPromptsWithAnswers) {
  std::ofstream(folder_ / "b.txt") << "@@context\r\nOnce.\n@@needle\nThe key is red.\n@@context\n"
                                      "\\@@note\n@@question\nWhich key?\n@@special \nA:\n"
                                      "@@answer\nred\n\ncrimson\n";
  std::ofstream(folder_ / "a.md") << "Two.\n@@answer\n2";
  const std::string lines = prompt_lines(folder_.path());
  const auto second = nlohmann::json::parse(lines.substr(lines.find('\n')));
  EXPECT_EQ(nlohmann::json::parse(lines.substr(0, lines.find('\n')))["id"], "a.md");
  EXPECT_EQ(second["context"], "Once.\nThe key is red.\n@@note");
  EXPECT_EQ(second["needle"], nlohmann::json({"The key is red."}));
  EXPECT_EQ(second["question"], "Which key?\nA:") << "what ends a template stays behind it";
  EXPECT_EQ(second["answers"], nlohmann::json({"red", "crimson"}));
  std::ofstream(folder_ / "p.jsonl") << lines;
  for (const PromptPlace& place : find_prompts(folder_ / "p.jsonl", "p.jsonl"))
    EXPECT_FALSE(read_prompt_line(place).answers.empty());
  for (const char* text :
       {"Three.", "@@question\nA?\n@@context\nB\n@@answer\nC", "\xff@@answer\nC"}) {
    std::ofstream(folder_ / "c.txt") << text;
    EXPECT_THROW(prompt_lines(folder_.path()), WorkError) << text;
  }
}

TEST_F(StudyJob, ProposesTracesOfTheSameModelWithTheFullCache) {
  write_traces(2);
  EXPECT_EQ(traces_alike(folder_ / "t1.h5", progress_), (folder_ / "*.h5").string());
  test::SyntheticTraceOptions other;
  other.layers = 2;  // another model
  test::write_synthetic_trace(folder_ / "other.h5", other);
  other.layers = 1;
  test::write_synthetic_closed_loop(folder_ / "closed.h5", other, "h2o", 16);
  std::ofstream(folder_ / "broken.h5") << "x";
  const std::string both = (folder_ / "t0.h5").string() + ", " + (folder_ / "t1.h5").string();
  EXPECT_EQ(traces_alike(folder_ / "t1.h5", progress_), both);
  EXPECT_EQ(traces_alike(folder_ / "closed.h5", progress_), both) << "not the run of a policy";
}

TEST_F(StudyJob, RunsStopsAndGoesOn) {
  write_traces(3);
  std::vector<StudyProgress> seen;
  // The second item's line stops the study.
  EXPECT_THROW(run_study_program(options_, progress_,
                                 [&](const StudyProgress& state) {
                                   seen.push_back(state);
                                   if (state.done == 2) progress_.cancel();
                                 }),
               Cancelled);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front().items, 12);
  EXPECT_EQ(seen.front().done_before, 0);
  const int kept = done();
  EXPECT_GE(kept, 2);
  seen.clear();
  const StudyProgress end = run_study_program(
      options_, test::unwatched, [&](const StudyProgress& state) { seen.push_back(state); });
  EXPECT_EQ(end.done, 12);
  EXPECT_EQ(end.done_before, kept) << "what was done is not computed again";
  EXPECT_THAT(end.line, HasSubstr("12 of 12"));
  EXPECT_DOUBLE_EQ(end.fraction(), 1.0);
  EXPECT_EQ(done(), 12);
}

TEST_F(StudyJob, AStudyFileOfAnotherStudyStays) {
  write_traces(1);
  std::ofstream(study_file(options_)) << "{\"mine\": 1}";
  EXPECT_THAT(test::error_of<WorkError>(
                  [&] { run_study_program(options_, progress_, [](const StudyProgress&) {}); }),
              HasSubstr("out.json: says another study already"));
  std::ifstream file(study_file(options_));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{\"mine\": 1}");
  EXPECT_FALSE(std::filesystem::exists(options_.results));
}

TEST_F(StudyJob, ItemsThatFailAreCountedAndSaid) {
  write_traces(1);
  std::ofstream(folder_ / "t9.h5") << "not a trace";
  StudyProgress last;
  EXPECT_THAT(test::error_of<WorkError>([&] {
                run_study_program(options_, progress_,
                                  [&](const StudyProgress& state) { last = state; });
              }),
              HasSubstr("4 of 8 items failed"));
  EXPECT_EQ(last.done, 4);
  EXPECT_EQ(last.failed, 4);
}

TEST(StudyLine, OtherLinesAreIgnored) {
  StudyProgress state;
  for (const char* line : {"", "text", "[1]", "{\"event\":\"note\",\"done\":3}",
                           "{\"event\":\"items\",\"done\":\"3\",\"items\":[]}"})
    read_study_line(line, state);
  EXPECT_EQ(state.done, 0);
  EXPECT_EQ(state.items, 0);
  read_study_line(R"({"event":"items","done":3,"failed":1,"items":9,"text":"x"})", state);
  EXPECT_EQ(state.done, 3);
  EXPECT_NEAR(state.fraction(), 4.0 / 9.0, 1e-12);
}

}  // namespace
}  // namespace kvloupe::job

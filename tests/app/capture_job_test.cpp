#include "app/job/capture_job.h"
#include "app/job/eval_case_job.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

struct CaptureJob : testing::Test {
  void SetUp() override {
    std::ofstream(folder_.path() / "config.json") << "{}";
    std::ofstream(folder_.path() / "prompt.txt") << "Once";
    options_.model = folder_.path().string();
    options_.file = (folder_.path() / "prompt.txt").string();
    options_.output = (folder_.path() / "out.h5").string();
  }
  test::TemporaryFolder folder_;
  CaptureOptions options_;
};

TEST_F(CaptureJob, SaysWhatIsMissingOneThingAtATime) {
  EXPECT_THAT(capture_problem(options_), IsEmpty());
  CaptureOptions o = options_;
  o.model = "/nowhere";
  EXPECT_THAT(capture_problem(o), HasSubstr("/nowhere"));
  o = options_;
  o.file += "x";
  EXPECT_THAT(capture_problem(o), HasSubstr("prompt.txtx"));
  o = options_;
  o.prompt = CaptureOptions::Prompt::text;
  EXPECT_THAT(capture_problem(o), HasSubstr("Type a prompt"));
  o.prompt = CaptureOptions::Prompt::trace;
  EXPECT_THAT(capture_problem(o), HasSubstr("tokens"));
  o = options_;
  o.output = folder_.path().string();
  EXPECT_THAT(capture_problem(o), HasSubstr("is a folder"));
}

TEST_F(CaptureJob, ALengthIsProposedWhereThePromptAsks) {
  EXPECT_FALSE(asks_a_question(options_));
  for (const char* text : {"Once. Who?\n", "A\n@@question\nName it.\n"}) {
    std::ofstream(options_.file) << text;
    EXPECT_TRUE(asks_a_question(options_)) << text;
  }
  options_.prompt = CaptureOptions::Prompt::text;
  options_.text = "Who? Nobody.";
  EXPECT_FALSE(asks_a_question(options_));
  options_.text = "Who?";
  EXPECT_TRUE(asks_a_question(options_));
}

TEST(CaseTrace, IsNamedByModelPromptAndRunAlone) {
  job::EvalCaseOptions one;
  one.results = "/a/needle.json";
  one.row = 1;
  one.prompt = "ids 1 2 3";
  one.policy = "sink";
  one.budget = "20%";
  one.model = "/m/small.gguf";
  one.folder = "/cache";
  // The same in every build: cached traces are found again.
  EXPECT_EQ(job::case_trace(one, kFullCache), "/cache/small-full-3df26a1890793162.h5");
  job::EvalCaseOptions other = one;
  other.results = "/b/needle.json";
  other.results_identity = "2";
  other.row = 5;
  EXPECT_EQ(job::case_trace(other, "sink"), job::case_trace(one, "sink"));
  other.policy = "h2o";
  other.budget = "30%";
  EXPECT_EQ(job::case_trace(other, kFullCache), job::case_trace(one, kFullCache)) << "one for all";
  EXPECT_NE(job::case_trace(other, "sink"), job::case_trace(one, "sink")) << "another budget";
  other.prompt += " 4";
  EXPECT_NE(job::case_trace(other, kFullCache), job::case_trace(one, kFullCache));
}

TEST_F(CaptureJob, TheCommandSaysEverything) {
  options_.block = 64;
  options_.generate = 8;
  EXPECT_THAT(capture_command(options_, "kvloupe-capture"),
              ElementsAre("kvloupe-capture", "run", "--model", options_.model, "--prompt",
                          options_.file, "--block", "64", "--generate", "8", "--output",
                          options_.output, "--progress", "json"));
  options_.prompt = CaptureOptions::Prompt::text;
  options_.text = "--help me";
  EXPECT_THAT(capture_command(options_, "c"), Contains("--text=--help me"));
  EXPECT_THAT(capture_command(options_, "c"), Not(Contains("--chat")));
  options_.chat = true;
  EXPECT_THAT(capture_command(options_, "c"), Contains("--chat"));
  options_.prompt = CaptureOptions::Prompt::trace;  // whose tokens are there already
  EXPECT_THAT(capture_command(options_, "c"), Not(Contains("--chat")));
}

TEST_F(CaptureJob, SaysWhatARunTakesBeforeItStarts) {
  const std::string program = (folder_.path() / "program").string();
  std::ofstream(program) << "#!/bin/sh\nfor word; do echo \"$word\" >> " << folder_.path().string()
                         << "/words; done\n"
                            "echo '{\"event\":\"forecast\",\"bytes\":130000000,\"dtype\":\"bf16\","
                            "\"store\":\"f16\",\"seconds\":12.5,\"time\":\"about 15 s\","
                            "\"text\":\"the trace will take about 130 MB\"}'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  options_.program = program;
  options_.shared_weights = true;
  const CaptureForecast forecast = foresee_capture(options_, test::unwatched);
  EXPECT_EQ(forecast.bytes, 130'000'000U);
  ASSERT_TRUE(forecast.seconds);
  EXPECT_DOUBLE_EQ(*forecast.seconds, 12.5);
  EXPECT_EQ(forecast_text(forecast),
            "the trace will take about 130 MB; computed in bf16, stored as float16; about 15 s");
  const std::string words = test::file_text(folder_.path() / "words");
  EXPECT_THAT(words, HasSubstr("--dry-run\n"));
  EXPECT_THAT(words, HasSubstr("--shared-weights\n"));
  EXPECT_EQ(precision_text("", "f32"), "stored as float32");
  EXPECT_EQ(precision_text("f32", ""), "f32");
}

TEST_F(CaptureJob, AClosedLoopForcesTheTokensOfTheTraceWithTheirSegments) {
  options_.prompt = CaptureOptions::Prompt::trace;
  options_.from = "/a/full.h5";
  options_.own_answer = true;
  options_.generate = 7;
  options_.policy = "h2o+recent(50%)";
  options_.budget = "25%";
  EXPECT_THAT(capture_command(options_, "c"),
              ElementsAre("c", "run", "--model", options_.model, "--from", "/a/full.h5",
                          "--own-answer", "--block", "128", "--policy", "h2o+recent(50%)",
                          "--budget", "25%", "--output", options_.output, "--progress", "json"));
}

TEST(CaptureProgress, TheEndNamesTheTraceAndItsModel) {
  CaptureState state;
  read_progress_line(
      R"({"event":"done","trace":"/t.h5","model_fingerprint":"v1:ab","own_answer":" 47."})", state);
  EXPECT_EQ(state.own_answer, " 47.");
  EXPECT_EQ(state.trace, "/t.h5");
  EXPECT_EQ(state.model_fingerprint, "v1:ab");
  read_progress_line(R"({"event":"done","trace":"/t.h5","model_fingerprint":7})", state);
  EXPECT_EQ(state.model_fingerprint, "v1:ab");
}

TEST(CaptureProgress, IsReadLineByLineAndNonsenseIsIgnored) {
  CaptureState state;
  read_progress_line(
      R"({"done":32,"event":"tokens","prompt_length":64,"seconds_left":1.5,"tokens_per_second":20.0,"total":80})",
      state);
  EXPECT_EQ(state.done, 32);
  EXPECT_EQ(state.total, 80);
  EXPECT_DOUBLE_EQ(state.fraction(), 0.4);
  EXPECT_DOUBLE_EQ(state.seconds_left, 1.5);
  for (const char* line :
       {"", "reading", "[1]", "{\"event\": 3}", "{\"event\":\"tokens\",\"done\":\"x\"}",
        "{\"event\":\"note\",\"text\":7}", "{\"event\":\"tokens\",\"seconds_left\":null}"}) {
    EXPECT_NO_THROW(read_progress_line(line, state)) << line;
  }
  EXPECT_EQ(state.done, 32);
  EXPECT_LT(state.seconds_left, 0.0) << "not known any more";
  read_progress_line(R"({"event":"note","text":"bf16"})", state);
  EXPECT_THAT(state.notes, ElementsAre("bf16"));
  read_progress_line(R"({"event":"size","bytes":7})", state);
  EXPECT_EQ(state.size, "");
  read_progress_line(R"({"event":"size","bytes":7,"text":"the trace will take 7 bytes"})", state);
  EXPECT_EQ(state.size, "the trace will take 7 bytes");
  read_progress_line(R"({"event":"done","trace":"/a/t.h5"})", state);
  EXPECT_EQ(state.trace, "/a/t.h5");
  EXPECT_DOUBLE_EQ(state.fraction(), 1.0);
}

}  // namespace
}  // namespace kvloupe::window

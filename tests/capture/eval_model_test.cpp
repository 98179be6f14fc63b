// Evaluations of the demo model.
#include "analysis/study/study_table.h"
#include "analysis/trace/segments.h"
#include "capture/eval/eval_case.h"
#include "capture/eval/evaluate.h"
#include "capture/eval/haystack.h"
#include "capture/run/capture.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"
#include "tests/capture/results_file.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

const fs::path kModel = fs::path(KVLOUPE_SOURCE_DIR) / "assets" / "demo-model";

class EvalTest : public testing::Test {
 protected:
  EvalRequest needle_request() const {
    return EvalRequest{.model = kModel,
                       .output = (folder_ / "results.json").string(),
                       .policies = {parse_policy("tova"), parse_policy("random")},
                       .budgets = {parse_budget("100%"), parse_budget("20%")},
                       .lengths = {300},
                       .depths = {0, 60},
                       .samples = 2,
                       .dtype = "f32"};
  }
  std::vector<nlohmann::ordered_json> run(const EvalRequest& request) {
    Progress progress;
    made_ = 0;
    EvalReport report;
    report.run = [&](long, long, const EvaluationRun&) { ++made_; };
    evaluate(request, progress, report);
    return runs_in(request.output);
  }
  const TemporaryFolder folder_;
  int made_ = 0;
};

TEST_F(EvalTest, PoliciesThatReadTheContextTwiceDoSoBeforeTheyEvict) {
  EvalRequest request = needle_request();
  request.policies = {parse_policy("kvzip+global"), parse_policy("kvcompose")};
  request.budgets = {parse_budget("100%"), parse_budget("40%")};
  request.compression = Compression::context_only;
  request.block = 300;
  std::map<std::pair<double, int>, std::string> full;
  int changed = 0;
  for (const nlohmann::ordered_json& run : this->run(request)) {
    const std::pair<double, int> which(run["depth"], run["sample"]);
    EXPECT_EQ(run.contains("probe"), run["budget"] != "full");
    if (run["budget"] == "full") full[which] = run["answer"];
    if (run["budget"] == "100%") {
      EXPECT_EQ(run["answer"], full.at(which));
    }
    if (run["budget"] == "40%") changed += run["hidden_distance"].back() > 0.0 ? 1 : 0;
  }
  EXPECT_EQ(changed, 2 * 4);
  const int before = made_;
  request.policies.push_back(parse_policy("sink"));  // the file takes others, too
  this->run(request);
  EXPECT_EQ(before, 5 * 4);
  EXPECT_EQ(made_, 2 * 4);
  request.output = (folder_ / "others.json").string();
  request.block = 64;
  EXPECT_THAT(error_of<UsageError>([&] { this->run(request); }), HasSubstr("as one block"));
  request.task = Evaluation::Task::perplexity;
  EXPECT_THAT(error_of<UsageError>([&] { this->run(request); }),
              HasSubstr("nothing has been evicted yet"));
}

TEST_F(EvalTest, HaystacksHoldTheNeedleWhereItIsAskedFor) {
  const auto tokenizer = open_tokenizer(kModel);
  const NeedleTemplate needles = read_needle_template(kModel / "needle.json");
  const Haystack haystack(needles, *tokenizer, 4);
  std::map<int, std::string> answers;
  for (const int length : {200, 500}) {
    for (const int sample : {0, 1, 2}) {
      for (const double depth : {0.0, 30.0, 100.0}) {
        SCOPED_TRACE(testing::Message() << length << " " << sample << " " << depth);
        const NeedleTask task = haystack.needle({length, depth, sample}, 3);
        const std::vector<std::int32_t>& ids = task.tokens.ids;
        EXPECT_LE(static_cast<int>(ids.size()), length);
        EXPECT_GT(static_cast<int>(ids.size()), length - 60);  // a sentence of slack
        const auto [known, fresh] = answers.emplace(length * 10 + sample, task.answer);
        EXPECT_EQ(known->second, task.answer);  // whatever the depth
        const std::string text = tokenizer->decode(ids);
        EXPECT_EQ(text.find(" is: " + task.answer + "."), text.rfind(" is: " + task.answer + "."));
        const std::size_t at = text.find(" is: " + task.answer + ".");
        ASSERT_NE(at, std::string::npos);
        const std::string question =
            tokenizer->decode({ids.begin() + task.question_begin, ids.end()});
        EXPECT_THAT(question, HasSubstr("What is the special magic number for"));
        EXPECT_EQ(question.substr(question.size() - 4), " is:");
        // The word asked for is the needle's.
        const std::size_t word = text.rfind(" for ", at) + 5;
        EXPECT_THAT(question, HasSubstr(text.substr(word, at - word) + "?"));
        int others = 0;
        for (std::size_t i = text.find("magic numbers for"); i != std::string::npos;
             i = text.find("magic numbers for", i + 1)) {
          ++others;
        }
        EXPECT_EQ(others, 3);
        const double place = static_cast<double>(at) / static_cast<double>(text.size());
        EXPECT_NEAR(place, depth / 100.0, 0.3);
      }
    }
  }
  EXPECT_EQ(haystack.text(123, 0).ids.size(), 123U);
  EXPECT_NE(haystack.text(123, 0).ids, haystack.text(123, 1).ids);
  EXPECT_THROW(haystack.needle({20, 0.0, 0}, 1), UsageError);
}

TEST_F(EvalTest, AWholeBudgetAnswersLikeTheFullCacheAndResultsGoOn) {
  const EvalRequest request = needle_request();
  const auto runs = run(request);
  EXPECT_EQ(made_, 4 * (1 + 2 * 2));
  ASSERT_EQ(runs.size(), 20U);
  std::map<std::pair<int, double>, std::string> full;
  int found = 0;
  for (const auto& line : runs) {
    const std::pair at(line["sample"].get<int>(), line["depth"].get<double>());
    EXPECT_LE(line["tokens"].get<int>(), 300);
    if (line["budget"] == "full") {
      full[at] = line["answer"];
      found += line["correct"].get<bool>() ? 1 : 0;
    }
    if (line["budget"] == "100%") {
      EXPECT_EQ(line["answer"], full.at(at));
      EXPECT_EQ(line["entries"], line["tokens"]);
    }
  }
  EXPECT_GE(found, 3);  // of 4

  EXPECT_EQ(run(request), runs);
  EXPECT_EQ(made_, 0);
  EvalRequest more = request;
  more.depths.push_back(100);
  more.policies.push_back(parse_policy("sink"));
  EXPECT_EQ(run(more).size(), 2U * 3U * (1U + 3U * 2U));
  EXPECT_EQ(made_, 42 - 20);
  EvalRequest other = request;
  other.block = 64;
  EXPECT_THROW(run(other), FileError);
}

TEST_F(EvalTest, WhatItWillTakeIsForeseenAndNothingIsRun) {
  Progress progress;
  for (const auto task : {Evaluation::Task::needle, Evaluation::Task::perplexity}) {
    EvalRequest request = needle_request();
    request.task = task;
    const bool needle = task == Evaluation::Task::needle;
    request.output = (folder_ / (needle ? "needle.json" : "perplexity.json")).string();
    const RunsForecast before = forecast_evaluation(request, progress);
    EXPECT_FALSE(fs::exists(request.output));
    EXPECT_EQ(before.known, 0);
    EXPECT_EQ(before.dtype, "f32");
    EXPECT_TRUE(before.free);
    run(request);
    EXPECT_EQ(before.missing, made_);
    const auto bytes = static_cast<double>(fs::file_size(request.output));
    EXPECT_NEAR(static_cast<double>(before.bytes), bytes, 0.2 * bytes);

    const RunsForecast after = forecast_evaluation(request, progress);
    EXPECT_EQ(after.missing, 0);
    EXPECT_EQ(after.known, made_);
    EXPECT_EQ(after.time_text, "no run is missing");
    EXPECT_EQ(after.bytes, fs::file_size(request.output));
    request.policies.push_back(parse_policy("sink"));
    EXPECT_EQ(forecast_evaluation(request, progress).missing, needle ? 8 : 4)
        << "two budgets of each prompt";
    request.block = 64;
    EXPECT_THROW(forecast_evaluation(request, progress), FileError) << "as the run itself says";
  }
}

TEST_F(EvalTest, ARowIsCapturedAgainAndSaysTheSame) {
  EvalRequest request = needle_request();
  request.needles = 2;
  request.block = 64;
  const auto runs = run(request);
  struct Silent : CaptureObserver {
    void on_tokens(int, int, int) override {}
    void on_note(const std::string&) override {}
  } silent;
  int wrong = 0;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    SCOPED_TRACE(row);
    const EvalCase one = eval_case({request.output, static_cast<int>(row), kModel, {}, {}});
    EXPECT_EQ(static_cast<int>(one.tokens.ids.size()), runs[row]["tokens"].get<int>());
    EXPECT_EQ(one.expected, runs[row]["expected"].get<std::string>());
    EXPECT_EQ(one.policy, runs[row]["policy"].get<std::string>());
    EXPECT_EQ(one.block, 64);
    EXPECT_FALSE(one.context_only);
    CaptureRequest capture{.model = kModel,
                           .target = folder_ / "row.h5",
                           .tokens = one.tokens,
                           .block = one.block,
                           .generate = one.answer_tokens,
                           .dtype = "f32"};
    if (one.budget != "full") {
      capture.policy = parse_policy(one.policy);
      capture.budget = parse_budget(one.budget);
    }
    Progress progress;
    EXPECT_EQ(run_capture(capture, progress, silent).generated_text,
              runs[row]["answer"].get<std::string>());
    wrong += runs[row]["correct"].get<bool>() ? 0 : 1;
    // The needle in question is a segment of its own.
    const Trace trace(folder_ / "row.h5");
    const TokenRange needle = segment_range(trace.tokens(), "needle");
    std::string text;
    for (int token = needle.first; token < needle.end; ++token)
      text += trace.tokens().text[static_cast<std::size_t>(token)];
    EXPECT_THAT(text, HasSubstr(one.expected));
    EXPECT_LT(needle.end - needle.first, 30);
  }
  EXPECT_GT(wrong, 0) << "nothing that could differ";
  const int rows = static_cast<int>(runs.size());
  EXPECT_THROW(eval_case({request.output, rows, kModel, {}, {}}), UsageError);
  EXPECT_THROW(eval_case({request.output, -1, kModel, {}, {}}), UsageError);
  // The results carry their prompts; those of earlier versions were made again.
  std::ofstream(folder_ / "other.txt") << "One sentence. And another one.";
  const EvalCase stored = eval_case({request.output, 0, kModel, {}, folder_ / "other.txt"});
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(std::ifstream(request.output));
  EXPECT_EQ(file["prompts"].size() * 5, runs.size()) << "one for the runs of each prompt";
  for (auto& run : file["runs"]) run.erase("prompt");
  file.erase("prompts");
  std::ofstream(request.output) << file.dump();
  const EvalCase made = eval_case({request.output, 0, kModel, {}, {}});
  EXPECT_EQ(made.tokens.ids, stored.tokens.ids);
  EXPECT_EQ(made.tokens.segment.size(), stored.tokens.segment.size());
  for (std::size_t i = 0; i < made.tokens.ids.size(); ++i) {
    EXPECT_EQ(made.tokens.names[made.tokens.segment[i]],
              stored.tokens.names[stored.tokens.segment[i]]);
  }
  EXPECT_EQ(made.answer_tokens, stored.answer_tokens);
  EXPECT_THROW(eval_case({request.output, 0, kModel, {}, folder_ / "other.txt"}), FileError)
      << "another filler";
}

TEST_F(EvalTest, ARunWithAFillerOfItsOwnIsCapturedAgain) {
  std::ofstream filler(folder_ / "filler.txt");
  for (int i = 0; i < 40; ++i) filler << "The old man went to the house by the lake. ";
  filler.close();
  EvalRequest request = needle_request();
  request.filler = folder_ / "filler.txt";
  const auto runs = run(request);
  fs::remove(folder_ / "filler.txt");
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const EvalCase one = eval_case({request.output, static_cast<int>(row), kModel, {}, {}});
    EXPECT_EQ(static_cast<int>(one.tokens.ids.size()), runs[row]["tokens"].get<int>());
    EXPECT_EQ(one.expected, runs[row]["expected"].get<std::string>());
  }
}

TEST_F(EvalTest, TheResultsOfAStudyHoldTheSameNumbers) {
  for (const auto task : {Evaluation::Task::needle, Evaluation::Task::perplexity}) {
    EvalRequest request = needle_request();
    request.task = task;
    const bool needle = task == Evaluation::Task::needle;
    request.output = (folder_ / (needle ? "needle.json" : "loss.json")).string();
    const auto runs = run(request);
    EvalRequest study = request;
    study.output = (folder_ / (needle ? "needle.sqlite" : "loss.sqlite")).string();
    Progress progress;
    EXPECT_EQ(forecast_evaluation(study, progress).missing, std::ssize(runs));
    EXPECT_FALSE(fs::exists(study.output));
    int said = 0;
    EvalReport report;
    report.run = [&](long, long, const EvaluationRun&) { ++said; };
    const Evaluation read = evaluate(study, progress, report);
    EXPECT_EQ(said, std::ssize(runs));
    ASSERT_EQ(read.runs.size(), runs.size());
    StudyTable table = read_study_table(study.output);
    const auto value = [&](const std::string& measure, std::size_t i) {
      const int place = table.measure((needle ? "needle_" : "perplexity_") + measure);
      return table.values.at(static_cast<std::size_t>(place))[i];
    };
    for (std::size_t i = 0; i < runs.size(); ++i) {
      SCOPED_TRACE(testing::Message() << runs[i]);
      EXPECT_EQ(read.runs[i].policy, runs[i]["policy"].get<std::string>());
      EXPECT_EQ(read.runs[i].tokens, runs[i]["tokens"].get<double>());
      if (needle) {
        EXPECT_EQ(value("found", i), runs[i]["correct"].get<bool>() ? 1.0 : 0.0);
        EXPECT_EQ(read.runs[i].answer, runs[i]["answer"].get<std::string>());
        const auto row = static_cast<int>(i);
        const EvalCase one = eval_case({study.output, row, kModel, {}, {}});
        const EvalCase same = eval_case({request.output, row, kModel, {}, {}});
        EXPECT_EQ(one.tokens.ids, same.tokens.ids);
        EXPECT_EQ(one.tokens.segment, same.tokens.segment);
        EXPECT_EQ(std::tie(one.policy, one.budget, one.dtype, one.block, one.answer_tokens,
                           one.expected, one.context_only, one.probe),
                  std::tie(same.policy, same.budget, same.dtype, same.block, same.answer_tokens,
                           same.expected, same.context_only, same.probe));
      } else {
        EXPECT_EQ(value("loss", i), runs[i]["loss"].get<double>());
        EXPECT_EQ(read.runs[i].loss_difference, runs[i]["loss_difference"].get<double>());
      }
      if (runs[i]["budget"] == "full") continue;
      const auto layers = runs[i]["hidden_distance"].get<std::vector<double>>();
      EXPECT_NEAR(value("hidden_distance", i),
                  std::accumulate(layers.begin(), layers.end(), 0.0) / std::ssize(layers), 1e-12);
      if (needle) continue;
      EXPECT_EQ(value("kl", i), runs[i]["kl"].get<double>());
    }
    said = 0;
    evaluate(study, progress, report);
    EXPECT_EQ(said, 0) << "all are there";
    study.policies.pop_back();
    EXPECT_THAT(error_of<FileError>([&] { evaluate(study, progress, report); }),
                HasSubstr("holds a study with other policies"));
  }
}

TEST_F(EvalTest, AStoppedEvaluationKeepsItsRunsAndGoesOn) {
  const EvalRequest request = needle_request();
  for (const int stop : {2, 5, 7}) {  // in the midst of a prompt, and after one
    Progress progress;
    EvalReport report;
    report.run = [&](long done, long, const EvaluationRun&) {
      if (done == stop) progress.cancel();
    };
    EXPECT_THROW(evaluate(request, progress, report), Cancelled);
    EXPECT_EQ(std::ssize(runs_in(request.output)), stop);
  }
  const auto without_seconds = [](std::vector<nlohmann::ordered_json> runs) {
    for (nlohmann::ordered_json& run : runs) run.erase("seconds");
    return runs;
  };
  const auto runs = without_seconds(run(request));
  EXPECT_EQ(made_, 20 - 7);
  fs::remove(request.output);
  EXPECT_EQ(runs, without_seconds(run(request)));
}

}  // namespace
}  // namespace kvloupe::test

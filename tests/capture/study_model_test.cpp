// Studies of runs in the model: the same numbers as two captures compared, in the same results file
// as the replays. Evaluations, which are studies of one task, are tested in eval_model_test.
#include <fmt/ranges.h>

#include "analysis/evaluation/evaluation.h"
#include "analysis/replay/drift.h"
#include "analysis/study/database.h"
#include "analysis/study/merge_results.h"
#include "analysis/study/prompt_set.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_table.h"
#include "analysis/study/summary.h"
#include "analysis/trace/loops.h"
#include "analysis/trace/model_files.h"
#include "capture/eval/eval_case.h"
#include "capture/eval/run_worker.h"
#include "capture/run/capture_set.h"
#include "capture/tokenizer/prompt.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

const fs::path kStudiedModel = fs::path(KVLOUPE_SOURCE_DIR) / "assets" / "demo-model";

class Quiet final : public CaptureObserver {
 public:
  void on_tokens(int, int, int) override {}
  void on_note(const std::string&) override {}
};

struct RunStudyTest : testing::Test {
  void SetUp() override {
    fs::create_directory_symlink(kStudiedModel, folder_ / "model");
    fs::create_directory(folder_ / "prompts");
    write_file(folder_ / "long.txt",
               "The old garden lies behind the house.\n@@question\nWhat lies behind it?\n");
    write_file(
        folder_ / "set.jsonl",
        "{\"input\": \"First line of a text.\\nWhat is the first?\", \"outputs\": [\"1\"]}\n"
        "\n{\"context\": \"A rose is red and a leaf is green.\", \"input\": \"And a rose?\", "
        "\"answers\": [\"red\"]}\n");
    write_study(R"("tasks": [{"task": "needle", "lengths": [200], "depths": [50], "samples": 2,
                              "seed": 3},
                             {"task": "perplexity", "lengths": [150], "samples": 2, "seed": 3},
                             "drift"])");
  }
  void write_study(const std::string& tasks, const std::string& more = "") {
    write_file(folder_ / "study.json",
               R"({"model": "model", "dtype": "f32", "prompts": ["long.txt", "set.jsonl"],
                   "policies": ["tova", "keydiff"], "budgets": ["30%", "100%"], "blocks": [32], )" +
                   more + tasks + "}");
  }
  void run(const std::string& results = "out.sqlite") {
    said_.clear();
    run_study(
        folder_ / "study.json", folder_ / results,
        [this](const std::string& line) { said_ += line + "\n"; }, StudyPart::runs,
        [](int threads) { return std::make_unique<RunWorker>("cpu", threads); });
  }
  std::string failure(const std::string& results = "out.sqlite") {
    return error_of<std::exception>([&] { run(results); });
  }
  std::string csv(const std::string& name = "out.sqlite") {
    StudyResults results(folder_ / name);
    write_study_csv(results, folder_ / "out.csv");
    return file_text(folder_ / "out.csv");
  }
  /// By (measure, policy, budget, prompt).
  std::map<std::tuple<std::string, std::string, std::string, std::string>, double> values() {
    const StudyTable table = read_study_table(folder_ / "out.sqlite");
    std::map<std::tuple<std::string, std::string, std::string, std::string>, double> all;
    for (const auto& [m, i] : cells(table.measures.size(), table.items.size())) {
      const StudyResults::Item& item = table.items[i];
      if (table.has_value[m][i] != 0)
        all[{table.measures[m], item.policy, item.budget, item.trace}] = table.values[m][i];
    }
    return all;
  }
  TemporaryFolder folder_;
  std::string said_;
};

TEST_F(RunStudyTest, PoliciesThatReadTheContextTwiceDoSoAsInAReplay) {
  const auto write = [&](const std::string& blocks, const std::string& tasks) {
    write_file(folder_ / "study.json",
               R"({"model": "model", "dtype": "f32", "prompts": ["long.txt", "set.jsonl"],
                   "policies": ["tova", "kvzip+global", "kvcompose"], "budgets": ["30%", "100%"],
                   "probe": "reread", "compression": "context-only", "blocks": )" +
                   blocks + ", \"tasks\": [" + tasks + "]}");
  };
  const std::string needle =
      R"({"task": "needle", "lengths": [200], "depths": [50], "samples": 2, "seed": 3})";
  write("[\"all\"]", needle + R"(, {"task": "answer", "prompts": ["set.jsonl"], "tokens": 4},
                                 {"task": "drift", "prompts": ["long.txt"]})");
  ASSERT_EQ(failure(), "");
  const auto all = values();
  // The run keeps at the context's end the same entries as the replay of the same reading.
  for (const char* policy : {"kvzip+global", "kvcompose"}) {
    EXPECT_EQ(all.at({"drift_agreement", policy, "30%", "drift: long.txt"}), 1.0);
    EXPECT_GT(all.at({"drift_output_distance", policy, "30%", "drift: long.txt"}), 0.0);
  }
  const std::string before = csv();
  run();
  EXPECT_EQ(csv(), before);

  write("[32, \"all\"]", needle);
  EXPECT_THAT(failure("other.sqlite"),
              HasSubstr("blocks: kvzip+global reads the context a second"));
  write("[\"all\"]", R"({"task": "perplexity", "lengths": [150]})");
  EXPECT_THAT(failure("other.sqlite"), HasSubstr("Perplexity is measured while the text is read"));
}

/// Computes items alone, whatever others there are.
struct OneByOne final : ItemWorker {
  StudyOutcome one(const StudyTask& task) { return worker.ItemWorker::compute(task); }
  void compute(const StudyTask& task, StudyOutcome& outcome) override { outcome = one(task); }
  RunWorker worker{"cpu", 1};
};

TEST_F(RunStudyTest, AnswersThatAreWrittenTogetherAreThoseOfRunsAlone) {
  write_file(folder_ / "study.json",
             R"({"model": "model", "dtype": "f32", "prompts": ["long.txt", "set.jsonl"],
                 "policies": ["tova", "keydiff", "h2o+kvmerger", "snapkv+adakv"],
                 "budgets": ["20%", "30%", "50%"], "blocks": [32], "tasks": [
                   {"task": "answer", "prompts": ["set.jsonl"], "tokens": 24},
                   {"task": "needle", "lengths": [200], "depths": [50], "seed": 3},
                   {"task": "perplexity", "lengths": [150], "seed": 3}]})");
  const auto as_text = [this] {
    std::string text;  // every digit; NaN is NaN
    for (const auto& [key, value] : values())
      text += fmt::format("{} {}\n", fmt::join(key, " "), value);
    return text;
  };
  run();
  const std::string together = as_text();
  const std::vector<EvaluationRun> said = read_evaluation(folder_ / "out.sqlite").runs;
  fs::remove(folder_ / "out.sqlite");
  run_study(
      folder_ / "study.json", folder_ / "out.sqlite", [](const std::string&) {}, StudyPart::runs,
      [](int) { return std::make_unique<OneByOne>(); });
  EXPECT_EQ(as_text(), together);
  const std::vector<EvaluationRun> alone = read_evaluation(folder_ / "out.sqlite").runs;
  ASSERT_EQ(alone.size(), said.size());
  std::size_t letters = 0;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].answer, said[i].answer) << alone[i].policy << " " << alone[i].budget;
    letters += said[i].answer.size();
  }
  EXPECT_GT(letters, 100U);
}

TEST_F(RunStudyTest, EachRunCanBeMadeAgainFromThePromptThatItKept) {
  write_study(R"("tasks": [{"task": "needle", "lengths": [200], "depths": [50], "seed": 3},
                           {"task": "answer", "prompts": ["set.jsonl"], "tokens": 4},
                           {"task": "perplexity", "prompts": ["long.txt"]}])");
  run();
  const fs::path path = folder_ / "out.sqlite";
  const auto of_item = [&](int row) { return eval_case({path, row, kStudiedModel, {}, {}}); };
  const EvalCase rose = of_item(10 + 3);
  EXPECT_EQ(rose.answers, std::vector<std::string>{"red"});
  EXPECT_EQ(std::tuple(rose.policy, rose.budget, rose.answer_tokens, rose.expected),
            std::tuple("keydiff", "30%", 4, ""));
  EXPECT_THAT(rose.tokens.names, Contains("question"));
  const EvalCase text = of_item(15);
  EXPECT_EQ(std::tuple(text.policy, text.answer_tokens, text.answers.size()),
            std::tuple("full", 0, 0U));
  EXPECT_THROW(of_item(20), UsageError);

  const Evaluation read = read_evaluation(path);
  ASSERT_EQ(read.runs.size(), 20U);
  EXPECT_EQ(read.model, "model");
  EXPECT_EQ(read.fingerprint, model_fingerprint(kStudiedModel, unwatched));
  EXPECT_EQ(read.runs[13].expected, "red");
  EXPECT_EQ(read.runs[13].tokens, static_cast<double>(rose.tokens.ids.size()));
  EXPECT_TRUE(has_prompt(read.runs[15]) && std::isnan(read.runs[15].correct));

  merge_results({path}, folder_ / "merged.sqlite");
  EXPECT_EQ(eval_case({folder_ / "merged.sqlite", 13, kStudiedModel, {}, {}}).tokens.ids,
            rose.tokens.ids);
  EXPECT_EQ(StudyResults(folder_ / "merged.sqlite").prompt(0).answer,
            StudyResults(path).prompt(0).answer);

  Database(path, Database::Access::write).run("UPDATE prompts SET stored = '[' WHERE prompt = 1");
  EXPECT_THROW(of_item(0), FileError);
  Database(path, Database::Access::write).run("DROP TABLE run_prompts");
  EXPECT_THAT([&] { of_item(13); },
              testing::ThrowsMessage<FileError>(HasSubstr("earlier kvloupe, which kept no")));
}

TEST_F(RunStudyTest, DriftIsThatOfTwoCaptures) {
  write_study(R"("tasks": ["drift"])", R"("compression": "context-only", )");
  run();
  const auto all = values();
  Quiet quiet;
  CaptureRequest request{.model = kStudiedModel,
                         .target = folder_ / "full.h5",
                         .prompt = folder_ / "long.txt",
                         .block = 32,
                         .dtype = "f32"};
  run_capture(request, unwatched, quiet);
  request.policy = parse_policy("keydiff");
  request.budget = parse_budget("30%");
  request.compression = Compression::context_only;
  request.target = folder_ / "closed.h5";
  run_capture(request, unwatched, quiet);
  const Drift drift =
      measure_drift(Trace(folder_ / "full.h5"), Trace(folder_ / "closed.h5"), unwatched);
  double agreement = 0.0, keys = 0.0;
  for (const HeadDrift& head : drift.heads)
    agreement += Drift::mean_jaccard(head, drift.first_eviction);
  for (const LayerDrift& layer : drift.layers) keys += layer.key;
  const auto value = [&](const char* measure, const char* budget = "30%") {
    return all.at({measure, "keydiff", budget, "drift: long.txt"});
  };
  EXPECT_DOUBLE_EQ(value(kAgreement), agreement / static_cast<double>(drift.heads.size()));
  EXPECT_DOUBLE_EQ(value("drift_key_distance"), keys / static_cast<double>(drift.layers.size()));
  EXPECT_DOUBLE_EQ(value("drift_same_top1"), drift.same_top1_share());
  EXPECT_DOUBLE_EQ(value("drift_loss_difference"), drift.mean_loss_difference());
  EXPECT_LT(value("drift_same_top1"), 1.0 + 1e-12);
  // A budget of the whole prompt evicts nothing.
  EXPECT_EQ(value(kAgreement, "100%"), 1.0);
  // Another block ends at the question, which rounds in another way.
  EXPECT_LT(value("drift_key_distance", "100%"), 1e-4);
  // Lines of JSON are prompts too, blank lines are none; values are kept by head.
  EXPECT_TRUE(all.contains({kAgreement, "tova", "30%", "drift: set.jsonl#2"}));
  const StudyTable table = read_study_table(folder_ / "out.sqlite");
  const MeasureTable measure = measure_table(table, table.measure(kAgreement), "32");
  EXPECT_THAT(measure.prompts,
              ElementsAre("drift: long.txt", "drift: set.jsonl#0", "drift: set.jsonl#2"));
  const HeadMeasureTable heads = head_table(table, measure, 1, 0);
  EXPECT_EQ(heads.heads.size(), drift.heads.size());
  for (std::size_t h = 0; h < heads.heads.size(); ++h) {
    EXPECT_EQ(heads.values[h * 3], Drift::mean_jaccard(drift.heads[h], drift.first_eviction));
  }
}

TEST_F(RunStudyTest, AStudyGoesOnAndAChangedPromptIsRefused) {
  write_study(R"("tasks": [{"task": "perplexity"}, "drift"])");
  run();
  const std::string whole = csv();
  run();
  EXPECT_THAT(said_, HasSubstr("27 items, 27 of them done before"));
  // As after a kill: some items were not written, in the midst of a prompt.
  Database(folder_ / "out.sqlite", Database::Access::write)
      .run(
          "UPDATE items SET state = 'waiting' WHERE item % 5 > 1;"
          "DELETE FROM replay_values WHERE item % 5 > 1; DELETE FROM head_values WHERE item % 5 > "
          "1");
  run();
  EXPECT_THAT(said_, HasSubstr("27 items, 12 of them done before"));
  EXPECT_EQ(csv(), whole);
  // A copy of the same text is the same text; so it is for results of earlier versions.
  const auto later = fs::last_write_time(folder_ / "long.txt") + std::chrono::hours(1);
  fs::last_write_time(folder_ / "long.txt", later);
  run();
  EXPECT_THAT(said_, HasSubstr("27 items, 27 of them done before"));
  Database(folder_ / "out.sqlite", Database::Access::write)
      .run("UPDATE traces SET identity = '" + model_fingerprint(folder_ / "model", unwatched) +
           " " + earlier_prompt_identity({"long.txt", folder_ / "long.txt"}) +
           "' WHERE name LIKE '%long.txt';");
  run();
  EXPECT_THAT(said_, HasSubstr("27 items, 27 of them done before"));
  write_file(folder_ / "long.txt", "Another text with another length.");
  EXPECT_THAT(failure(), HasSubstr("has results of \"perplexity: long.txt\" as the file was"));
  EXPECT_EQ(csv(), whole);
}

TEST_F(RunStudyTest, ReplaysAndRunsShareAFile) {
  Quiet quiet;
  CaptureRequest request{.model = kStudiedModel,
                         .target = folder_ / "long.h5",
                         .prompt = folder_ / "long.txt",
                         .dtype = "f32"};
  run_capture(request, unwatched, quiet);
  write_study(R"("tasks": ["drift"])",
              R"("traces": ["long.h5"], "measures": ["retained", "perturbation_l1"], )");
  run();
  EXPECT_THAT(said_, HasSubstr("12 items, 0 of them done before\n4 more wait for kvloupe study"));
  std::string said;
  run_study(folder_ / "study.json", folder_ / "out.sqlite",
            [&](const std::string& line) { said += line + "\n"; });
  EXPECT_THAT(said, HasSubstr("4 items, 0 of them done before\n1 of 4")) << "none waits";
  const auto all = values();
  EXPECT_TRUE(all.contains({"perturbation_l1", "tova", "30%", "long.h5"}));
  EXPECT_TRUE(all.contains({kAgreement, "tova", "30%", "drift: long.txt"}));
  StudyResults results(folder_ / "out.sqlite");
  int rows = 0;
  for (const SummaryRow& row : summarise(results)) {
    EXPECT_EQ(row.traces, row.measure.starts_with("drift") ? 3 : 1) << row.measure;
    ++rows;
  }
  EXPECT_EQ(rows, (2 + 5) * 2 * 2);
}

TEST_F(RunStudyTest, EveryPromptOfASetIsCapturedOnce) {
  write_file(folder_ / "prompts" / "a.txt", "One text of some words.");
  CaptureSetRequest request;
  request.each.model = kStudiedModel;
  request.each.dtype = "f32";
  request.set = folder_ / "set.jsonl";
  request.folder = folder_ / "traces";
  Quiet quiet;
  int done = 0, found = 0;
  CaptureSetReport report;
  report.done = [&](const fs::path&, const CaptureSummary&, int, int) { ++done; };
  report.found = [&](int traces) { found = traces; };
  run_capture_set(request, unwatched, quiet, report);
  EXPECT_EQ(done, 2);
  // The same trace as of the same text by itself.
  const Trace one(folder_ / "traces" / "set-00000.h5");
  CaptureRequest alone = request.each;
  alone.prompt = folder_ / "alone.txt";
  write_file(*alone.prompt, "First line of a text.\n@@question\nWhat is the first?");
  alone.target = folder_ / "alone.h5";
  run_capture(alone, unwatched, quiet);
  const Trace expected(alone.target);
  EXPECT_EQ(one.tokens().ids, expected.tokens().ids);
  EXPECT_EQ(one.tokens().segment, expected.tokens().segment);
  EXPECT_EQ(one.predictions()->token_ids, expected.predictions()->token_ids);
  // A trace that is there stays; the missing one is made.
  const auto time = fs::last_write_time(folder_ / "traces" / "set-00000.h5");
  fs::remove(folder_ / "traces" / "set-00002.h5");
  run_capture_set(request, unwatched, quiet, report);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(done, 3);
  EXPECT_EQ(fs::last_write_time(folder_ / "traces" / "set-00000.h5"), time);
  EXPECT_TRUE(fs::exists(folder_ / "traces" / "set-00002.h5"));
  // Traces of another run, or of another set with the same names, are not these.
  const auto problem = [&](const CaptureSetRequest& other) -> std::string {
    return error_of<FileError>([&] { run_capture_set(other, unwatched, quiet, report); });
  };
  CaptureSetRequest other = request;
  other.each.policy = parse_policy("keydiff");
  other.each.budget = parse_budget("50%");
  EXPECT_THAT(problem(other), HasSubstr("set-00000.h5: is there already, with another policy"));
  other = request;
  other.each.block = 16;
  EXPECT_THAT(problem(other), HasSubstr("another block"));
  other.each.block = 128;
  other.each.generate = 2;
  EXPECT_THAT(problem(other), HasSubstr("another number of generated tokens"));
  other = request;
  fs::create_directory(folder_ / "other");
  other.set = folder_ / "other" / "set.jsonl";
  write_file(other.set, R"({"text": "Quite another text of the same name."})");
  EXPECT_THAT(problem(other), HasSubstr("another prompt"));
  EXPECT_EQ(problem(request), "");
  write_file(folder_ / "prompts" / "a.md", "Another text.");
  request.set = folder_ / "prompts";
  EXPECT_THAT([&] { run_capture_set(request, unwatched, quiet, report); },
              testing::ThrowsMessage<FileError>(HasSubstr("the same trace as")));
}

TEST_F(RunStudyTest, AnswersAreJudgedByThoseOfThePrompt) {
  const Prompt prompt = read_prompt(kStudiedModel.parent_path() / "prompts" / "needle.txt");
  const std::string word = "magic numbers for net is: ";
  const std::size_t at = prompt.text.find(word);
  ASSERT_NE(at, std::string::npos);
  const std::string answer = prompt.text.substr(at + word.size(), 2);
  const auto line = [&](std::vector<std::string> answers) {
    return nlohmann::json{{"input", prompt.text}, {"outputs", std::move(answers)}}.dump() + "\n";
  };
  write_file(folder_ / "set.jsonl", line({"none", answer}) + line({"none"}) +
                                        nlohmann::json{{"text", prompt.text}}.dump());
  write_file(folder_ / "study.json",
             R"({"model": "model", "dtype": "f32", "prompts": ["set.jsonl"], "policies": ["sink"],
                 "budgets": ["2%", "100%"], "tasks": [{"task": "answer", "tokens": 2}]})");
  EXPECT_THAT(failure(), HasSubstr("3 of 9 items failed"));
  EXPECT_THAT(said_, HasSubstr("set.jsonl: line 3 has no answers"));
  const auto all = values();
  const auto value = [&](const char* measure, const char* policy, const char* budget, int number) {
    return all.at({measure, policy, budget, "answer: set.jsonl#" + std::to_string(number)});
  };
  for (const char* measure : {"answer_found", "answer_f1"}) {
    EXPECT_GT(value(measure, "full", "full", 0), 0.5) << measure;
    EXPECT_EQ(value(measure, "sink", "100%", 0), value(measure, "full", "full", 0)) << measure;
    EXPECT_EQ(value(measure, "sink", "2%", 0), 0.0) << measure << ": the number was evicted";
    EXPECT_EQ(value(measure, "full", "full", 1), 0.0) << measure;
  }
  EXPECT_EQ(value("answer_all", "full", "full", 0), 0.5) << "one of two";
  EXPECT_EQ(value("answer_all", "sink", "2%", 0), 0.0);
  EXPECT_EQ(value("answer_hidden_distance", "sink", "100%", 0), 0.0);
  EXPECT_EQ(value("answer_loops", "full", "full", 0), 0.0) << "two tokens are no loop";
  EXPECT_TRUE(std::isnan(value("answer_loop_begin", "full", "full", 0)));
  // Compression of the context only needs a question; another limit is another study.
  write_file(folder_ / "set.jsonl", R"({"text": "A text.", "answers": ["1"]})");
  write_file(folder_ / "study.json",
             R"({"model": "model", "prompts": ["set.jsonl"], "policies": ["sink"], "budgets": [4],
                 "compression": "context-only", "tasks": ["answer"]})");
  EXPECT_THAT(failure("b.sqlite"), HasSubstr("2 of 2 items failed"));
  EXPECT_THAT(said_, HasSubstr("line 1 has no question"));
  write_file(folder_ / "study.json",
             R"({"model": "model", "prompts": ["set.jsonl"], "policies": ["sink"], "budgets": [4],
                 "compression": "context-only", "tasks": [{"task": "answer", "tokens": 9}]})");
  EXPECT_THAT(failure("b.sqlite"), HasSubstr("holds a study with other tasks"));
}

// Several questions about one context give the answers of prompts of their own: with the context
// compressed alone each one, with the first question in sight that one.
TEST_F(RunStudyTest, ManyQuestionsAreAnsweredAsEachOneAlone) {
  const std::string context =
      "The quick fox met a bear. The bear said that the key is 4711. A bird sang all day. The sun "
      "was warm, and the fox went home to sleep. ";
  const std::vector<std::string> questions = {"What is the key?", "Who sang all day long?",
                                              "Where did the fox go?"};
  std::string many, alone;
  for (const std::string& question : questions) {
    const std::string own = R"("question": ")" + question + R"(", "answers": ["4711", "home"])";
    many += (many.empty() ? "{" : ", {") + own + "}";
    alone += R"({"context": ")" + context + R"(", )" + own + "}\n";
  }
  write_file(folder_ / "many.jsonl",
             R"({"context": ")" + context + R"(", "questions": [)" + many + "]}\n" +
                 R"({"context": "Another text of some words.", "questions": [)" +
                 R"({"question": "Whose?", "answers": ["x"]}]})" + "\n");
  write_file(folder_ / "alone.jsonl", alone);
  const auto study = [&](const char* prompts, const char* compression) {
    write_file(folder_ / "study.json",
               fmt::format(R"json({{"model": "model", "dtype": "f32", "prompts": ["{}"],
                   "policies": ["snapkv(4)", "h2o+recent(2)", "keydiff+quant(4,group=8,residual=4)",
                                "epikv"], "budgets": [20], "blocks": [16],
                   "compression": "{}", "tasks": [{{"task": "answer", "tokens": 12}}]}})json",
                           prompts, compression));
  };
  const auto said = [&](const char* results, const std::string& prompt) {
    StudyResults file(folder_ / results);
    std::map<std::string, std::string> answers;
    for (const StudyResults::Item& item : file.items()) {
      EXPECT_EQ(item.state, "done") << item.problem;
      if (item.trace == "answer: " + prompt)
        answers[item.policy] = fmt::format("{} {}", file.prompt(item.number).answer, item.entries);
    }
    EXPECT_EQ(answers.size(), 5U) << prompt;
    return answers;
  };
  study("many.jsonl", "context-only");
  run("many.sqlite");
  study("alone.jsonl", "context-only");
  run("alone.sqlite");
  for (int question = 0; question < 3; ++question) {
    auto one = said("many.sqlite", fmt::format("many.jsonl#0.q{}", question));
    auto other = said("alone.sqlite", fmt::format("alone.jsonl#{}", question));
    one.erase("full"), other.erase("full");
    EXPECT_EQ(one, other) << questions[static_cast<std::size_t>(question)];
  }
  // Hidden states are compared with the full cache's run of the same question.
  const auto of = [&](const char* results, const char* prompt) {
    const StudyTable table = read_study_table(folder_ / results);
    const int m = table.measure("answer_hidden_distance");
    for (std::size_t i = 0; i < table.items.size(); ++i) {
      if (table.items[i].trace == prompt && table.items[i].policy == "snapkv(4)")
        return table.values[static_cast<std::size_t>(m)][i];
    }
    return std::nan("");
  };
  EXPECT_EQ(of("many.sqlite", "answer: many.jsonl#0.q2"),
            of("alone.sqlite", "answer: alone.jsonl#2"));
  study("many.jsonl", "regular");
  run("seen.sqlite");
  study("alone.jsonl", "regular");
  run("each.sqlite");
  EXPECT_EQ(said("seen.sqlite", "many.jsonl#0.q0"), said("each.sqlite", "alone.jsonl#0"));
  EXPECT_NE(said("seen.sqlite", "many.jsonl#0.q1"), said("each.sqlite", "alone.jsonl#1"));
  // A later question follows the first one, without its answer.
  StudyResults file(folder_ / "seen.sqlite");
  const auto items = file.items();
  const auto later = std::find_if(items.begin(), items.end(), [](const auto& item) {
    return item.trace.ends_with("#0.q1") && item.policy == "snapkv(4)";
  });
  EvalCaseRequest wanted;
  wanted.results = folder_ / "seen.sqlite";
  wanted.row = later->number;
  wanted.model = ModelChoice{kStudiedModel};
  EXPECT_THAT(error_of<UsageError>([&] { eval_case(wanted); }), HasSubstr("a later question"));
  // Means are over questions, intervals over contexts.
  std::vector<SummaryRow> rows = summarise(file);
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const SummaryRow& one) { return one.policy == "epikv"; });
  EXPECT_EQ(row->traces, 4);
  EXPECT_EQ(row->contexts, 2);
}

TEST_F(RunStudyTest, TheModelWritesAsACaptureDoesAndItsLoopsAreCounted) {
  const std::string text = read_prompt(kStudiedModel.parent_path() / "prompts" / "needle.txt").text;
  write_file(folder_ / "set.jsonl", nlohmann::json{{"text", text}, {"answers", {"12"}}}.dump());
  write_file(folder_ / "alone.txt", text);
  const std::vector<std::string> policies = {"keydiff+boundaries(50%)", "sink+boundaries+every(5)",
                                             "random"};
  nlohmann::json study = {{"model", "model"},     {"dtype", "f32"},  {"prompts", {"set.jsonl"}},
                          {"policies", policies}, {"budgets", {24}}, {"blocks", {32}}};
  study["tasks"] = {{{"task", "answer"}, {"tokens", 60}}};
  write_file(folder_ / "study.json", study.dump());
  run();
  const auto all = values();
  const Evaluation evaluation = read_evaluation(folder_ / "out.sqlite");
  CaptureRequest request;
  request.model.path = kStudiedModel;
  request.prompt = folder_ / "alone.txt";
  request.target = folder_ / "alone.h5";
  request.storage = Storage::float32;
  request.attention = AttentionStorage::none;
  request.dtype = "f32";
  request.block = 32;
  request.generate = 60;
  int loops = 0;
  for (const std::string& policy : policies) {
    SCOPED_TRACE(policy);
    const std::string name = parse_policy(policy).text();
    request.policy = parse_policy(policy);
    request.budget = parse_budget("24");
    const CaptureSummary summary = capture(request);
    const auto own = std::find_if(evaluation.runs.begin(), evaluation.runs.end(),
                                  [&](const EvaluationRun& one) { return one.policy == name; });
    ASSERT_NE(own, evaluation.runs.end());
    EXPECT_EQ(own->answer, summary.generated_text);
    const Trace trace(request.target);
    const Loops found = find_loops(trace.tokens().ids, trace.run().prompt_length);
    const auto value = [&](const char* measure) {
      return all.at({measure, name, "24", "answer: set.jsonl#0"});
    };
    EXPECT_EQ(value("answer_loops"), found.spans.empty() ? 0.0 : 1.0);
    EXPECT_EQ(std::isnan(value("answer_loop_begin")), found.spans.empty());
    if (found.spans.empty()) continue;
    ++loops;
    EXPECT_EQ(value("answer_loop_begin"), found.spans[0].first - trace.run().prompt_length);
  }
  EXPECT_GT(loops, 0) << "another prompt or budget, with which the model repeats itself";
  // What boundaries keeps follows from the texts, in the run as in a replay of its trace.
  request.policy = parse_policy("keydiff+boundaries(50%)+every(3)");
  capture(request);
  const Trace trace(request.target);
  ReplayRequest again{.policy = *request.policy, .budget = 24, .metrics = false};
  const Replay replayed = replay(trace, again, unwatched);
  for (const auto& [layer, head] : cells(trace.model().num_layers, trace.model().num_kv_heads)) {
    EXPECT_EQ(trace.evicted_at(layer, head), replayed.find(layer, head)->evicted_at)
        << "layer " << layer << ", head " << head;
  }
}

TEST_F(RunStudyTest, ACadenceNeedsGeneratedTokens) {
  for (const char* tasks : {R"(["drift"])", R"([{"task": "perplexity", "lengths": [64]}])",
                            R"(["answer"], "compression": "context-only")"}) {
    write_file(folder_ / "study.json",
               R"x({"model": "model", "prompts": ["set.jsonl"], "budgets": [4],
                    "policies": ["h2o+every(8)"], "tasks": )x" +
                   std::string(tasks) + "}");
    EXPECT_THAT(failure(), HasSubstr("every: counts generated tokens")) << tasks;
  }
}

TEST_F(RunStudyTest, WhatCannotRunIsSaid) {
  write_file(folder_ / "set.jsonl", "{\"text\": \"A text of some words.\"}\n{\"text\": 3}\n");
  write_study(R"("tasks": ["drift"])");
  EXPECT_THAT(failure("a.sqlite"), HasSubstr("4 of 12 items failed"));
  EXPECT_THAT(said_, HasSubstr("line 2 has a \"text\" that is not a text"));
  fs::remove(folder_ / "model");
  EXPECT_THAT(failure("b.sqlite"), HasSubstr("model: \"model\" is neither a folder"));
  fs::create_directory(folder_ / "model");
  EXPECT_THAT(failure("b.sqlite"), HasSubstr("12 of 12 items failed"));
  EXPECT_THAT(said_, HasSubstr("no config.json or no weights"));
  EXPECT_THAT(
      [&] { run_study(folder_ / "study.json", folder_ / "c.sqlite", [](const std::string&) {}); },
      testing::ThrowsMessage<FileError>(HasSubstr("run it with kvloupe-capture study")));
}

}  // namespace
}  // namespace kvloupe::test

// Results of an evaluation as they are read: every number, and files that are broken or foreign.
#include "analysis/evaluation/evaluation.h"
#include "analysis/evaluation/rescue_results.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/test.h"
#include "version.h"

namespace kvloupe {
namespace {

using ::testing::AnyOf;

class EvaluationTest : public ::testing::Test {
 protected:
  /// The error's one line.
  std::string refused(const std::string& text) const {
    std::ofstream(folder / "x.json", std::ios::binary) << text;
    try {
      read_evaluation(folder / "x.json");
    } catch (const FileError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_THAT(error.what(), HasSubstr("x.json: "));
      return error.what();
    }
    ADD_FAILURE() << "taken: " << text.substr(0, 100);
    return {};
  }
  static std::string file(const std::string& runs, const std::string& task = "needle") {
    return R"({"format":"kvloupe-eval","format_version":1,"settings":{"task":")" + task +
           R"("},"runs":[)" + runs + "]}";
  }
  test::TemporaryFolder folder;
};

TEST_F(EvaluationTest, ReadsWhatTheProgramWrites) {
  const auto path = test::write_synthetic_evaluation(folder / "needle.json");
  EXPECT_TRUE(looks_like_evaluation(path));
  const Evaluation needle = read_evaluation(path);
  EXPECT_EQ(needle.task, Evaluation::Task::needle);
  EXPECT_EQ(needle.model, "synthetic");
  EXPECT_EQ(needle.runs.size(), 84U);  // 7 × 2 samples × 2 lengths × 3 depths
  EXPECT_THAT(needle.policies(), ElementsAre("full", "h2o", "snapkv+critical"));
  EXPECT_THAT(needle.budgets(), ElementsAre("10%", "25%", "50%"));
  EXPECT_EQ(nearest_budget(needle, 0.22), "25%");
  EXPECT_EQ(nearest_budget(needle, 0.9), "50%");
  EXPECT_TRUE(std::isnan(needle.runs[0].loss));
  EXPECT_EQ(mean_of(needle, "full", "full", &EvaluationRun::correct), 1.0);
  EXPECT_TRUE(std::isnan(mean_of(needle, "tova", "10%", &EvaluationRun::correct)));
  const Evaluation loss =
      read_evaluation(test::write_synthetic_evaluation(folder / "l.json", false));
  EXPECT_EQ(loss.task, Evaluation::Task::perplexity);
  EXPECT_NEAR(mean_of(loss, "h2o", "10%", &EvaluationRun::loss), 3.115, 1e-12);
  EXPECT_TRUE(std::isnan(mean_of(loss, "full", "full", &EvaluationRun::kl)));
  for (const Evaluation* results : {&needle, &loss}) {
    EXPECT_EQ(results->layers(), 3);
    const HiddenDistances mean = mean_of(*results, "h2o", "25%", &EvaluationRun::hidden);
    EXPECT_THAT(mean.layers, ElementsAre(DoubleNear(0.055, 1e-12), DoubleNear(0.11, 1e-12),
                                         DoubleNear(0.165, 1e-12)));
    EXPECT_NEAR(mean.normed, 0.22, 1e-12);
    const HiddenDistances cosine = mean_of(*results, "h2o", "25%", &EvaluationRun::hidden_cosine);
    EXPECT_NEAR(cosine.layers[2], 0.0275, 1e-12);
    EXPECT_NEAR(cosine.normed, 0.055, 1e-12);
    const HiddenDistances full = mean_of(*results, "full", "full", &EvaluationRun::hidden);
    EXPECT_THAT(full.layers, IsEmpty());
    EXPECT_TRUE(std::isnan(full.normed));
  }
}

TEST_F(EvaluationTest, HiddenStatesMayBeMissingButNotBeAnything) {
  const std::string run =
      R"({"policy":"h2o","budget":"9","entries":9,"length":10,"tokens":10,"loss":2)";
  const auto with = [&](const std::string& fields) { return run + fields + "}"; };
  // As earlier versions wrote them, and a null where a number was none.
  for (const char* fields : {"", R"(,"hidden_distance":null,"normed_distance":null)"}) {
    std::ofstream(folder / "old.json") << file(with(fields), "perplexity");
    const Evaluation old = read_evaluation(folder / "old.json");
    EXPECT_EQ(old.layers(), 0);
    EXPECT_TRUE(std::isnan(old.runs[0].hidden.normed));
  }
  // Runs with them beside runs without: means are over those that have them.
  std::ofstream(folder / "mixed.json")
      << file(with("") + "," + with(R"(,"hidden_distance":[0.5,1])"), "perplexity");
  const Evaluation mixed = read_evaluation(folder / "mixed.json");
  EXPECT_EQ(mixed.layers(), 2);
  EXPECT_THAT(mean_of(mixed, "h2o", "9", &EvaluationRun::hidden).layers, ElementsAre(0.5, 1.0));
  std::string many = "[0";
  for (int i = 0; i < 10000; ++i) many += ",0";
  for (const std::string& wrong :
       {std::string("7"), std::string("[]"), std::string("{}"), std::string("[-1]"),
        std::string("[null]"), std::string("[\"0\"]"), std::string("[[0]]"),
        std::string("[0,1e999]"), many + "]"}) {
    EXPECT_THAT(refused(file(with(",\"hidden_distance\":" + wrong), "perplexity")),
                AnyOf(HasSubstr("run 0 has a \"hidden_distance\""), HasSubstr("not valid JSON")))
        << wrong.substr(0, 20);
  }
  EXPECT_THAT(refused(file(with(R"(,"hidden_cosine_distance":[2.5])"), "perplexity")),
              HasSubstr("hidden_cosine_distance"));
  EXPECT_THAT(refused(file(with(R"(,"normed_distance":-0.5)"), "perplexity")),
              HasSubstr("normed_distance"));
  EXPECT_THAT(refused(file(
                  with(R"(,"hidden_distance":[1,2])") + "," + with(R"(,"hidden_distance":[1,2,3])"),
                  "perplexity")),
              HasSubstr("run 0 has hidden states after 2 layers, another run after 3"));
}

TEST_F(EvaluationTest, FilesThatAreBrokenOrForeignAreRefusedInOneLine) {
  const auto path = test::write_synthetic_evaluation(folder / "needle.json");
  const std::string whole = test::file_text(path);
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{40}, whole.size() / 2, whole.size() - 3})
    EXPECT_THAT(refused(whole.substr(0, length)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(std::string(1000000, '[')), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused("\x89HDF\r\n"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("no results of an evaluation"));
  EXPECT_THAT(refused(R"({"format":"kvloupe-session"})"), HasSubstr("no results of an evaluation"));
  EXPECT_THAT(refused(R"({"format":"kvloupe-eval","format_version":2})"), HasSubstr("newer"));
  EXPECT_THAT(refused(R"({"format":"kvloupe-eval","format_version":"1"})"),
              HasSubstr("format_version"));
  EXPECT_THAT(refused(R"({"format":"kvloupe-eval","format_version":1,"settings":[]})"),
              HasSubstr("task"));
  EXPECT_THAT(refused(file("", "needle")), HasSubstr("no runs"));
  EXPECT_THAT(refused(file("7")), HasSubstr("run 0 is not an object"));
  const std::string good =
      R"({"policy":"h2o","budget":"9","entries":9,"length":10,"tokens":10,"depth":50,"correct":true})";
  std::ofstream(folder / "good.json") << file(good);
  EXPECT_EQ(read_evaluation(folder / "good.json").runs.size(), 1U);
  for (const auto& [from, to, says] :
       std::vector<std::array<std::string, 3>>{{"\"h2o\"", "7", "policy"},
                                               {"\"9\"", "\"\"", "budget"},
                                               {"\"entries\":9", "\"entries\":-1", "entries"},
                                               {"\"length\":10", "\"length\":1e300", "length"},
                                               {"\"depth\":50", "\"depth\":101", "depth"},
                                               {"\"depth\":50", "\"deep\":50", "depth"},
                                               {"true", "\"yes\"", "correct"}}) {
    std::string wrong = good;
    wrong.replace(wrong.find(from), from.size(), to);
    EXPECT_THAT(refused(file(good + "," + wrong)), HasSubstr("run 1 has")) << to;
    EXPECT_THAT(refused(file(wrong)), HasSubstr("\"" + says + "\"")) << to;
  }
  EXPECT_THAT(refused(file(good, "perplexity")), HasSubstr("\"loss\""));
  EXPECT_THROW(read_evaluation(folder / "none.json"), FileError);
  EXPECT_THROW(read_evaluation(folder.path()), FileError);
  EXPECT_FALSE(looks_like_evaluation(folder / "none.json"));
  EXPECT_FALSE(looks_like_evaluation(folder.path()));
}

TEST_F(EvaluationTest, ReadsTheResultsOfARescue) {
  const auto path = test::write_synthetic_rescue(folder / "rescue.json");
  EXPECT_TRUE(looks_like_evaluation(path));
  const Evaluation evaluation = read_evaluation(path);
  EXPECT_EQ(evaluation.task, Evaluation::Task::rescue);
  EXPECT_EQ(evaluation.model, "synthetic");
  EXPECT_TRUE(evaluation.runs.empty());
  ASSERT_TRUE(evaluation.rescue);
  const RescueResults& all = *evaluation.rescue;
  EXPECT_EQ(all.policy, "h2o");
  EXPECT_EQ(all.budget, 24);
  EXPECT_THAT(all.tokens, ElementsAre(5, 6, 7));
  EXPECT_EQ(all.expected, " 32");
  EXPECT_EQ(all.policy_says, " 78.");
  EXPECT_FALSE(all.policy_right);
  ASSERT_EQ(all.layers(), 3);
  ASSERT_EQ(all.heads(), 2);
  for (int i = 0; i < 6; ++i) {
    const HeadIndex head{i / 2, i % 2};
    EXPECT_EQ(all.index(head), static_cast<std::size_t>(i));
    const RescueEffect& kept = all.keep.heads[all.index(head)];
    const RescueEffect& dropped = all.drop.heads[all.index(head)];
    EXPECT_EQ(kept.at, head);
    EXPECT_DOUBLE_EQ(kept.gain, 0.5 * i);
    EXPECT_DOUBLE_EQ(kept.logprob, -4.0 + 0.5 * i);
    EXPECT_EQ(kept.right, i >= 4);
    EXPECT_DOUBLE_EQ(dropped.gain, -0.3 * i);
    EXPECT_EQ(dropped.right, i < 5);
    if (i > 0) {
      EXPECT_DOUBLE_EQ(all.predicted[all.index(head)], 0.1 * i);
    }
  }
  EXPECT_TRUE(std::isnan(all.predicted[0]));
  EXPECT_EQ(all.keep.smallest, (std::vector<HeadIndex>{{2, 0}}));
  EXPECT_EQ(all.drop.smallest, (std::vector<HeadIndex>{{1, 1}, {2, 1}}));
  EXPECT_EQ(all.rank_correlation, 1.0);
  EXPECT_DOUBLE_EQ(all.keep.all.gain, 3.5);
}

TEST_F(EvaluationTest, ARescueOfFewRunsHasNumbersOfWhatWasRun) {
  nlohmann::json json =
      nlohmann::json::parse(test::file_text(test::write_synthetic_rescue(folder / "rescue.json")));
  const auto read = [&] { return rescue_results(json); };
  EXPECT_EQ(read().set_within(), 2) << "head 2.0, of which 0.4 is predicted, after 2.1";
  json["shape"] = {{"layers", 3}, {"heads", 2}};
  json["keep"]["heads"].erase(1);
  json["keep"]["layers"].erase(0);
  json["drop"]["heads"] = nlohmann::json::array();
  json["keep"]["smallest"]["minimal"] = false;
  const RescueResults few = read();
  EXPECT_EQ(few.layers(), 3);
  EXPECT_EQ(few.heads(), 2);
  EXPECT_EQ(few.keep.known_heads(), 5);
  EXPECT_EQ(few.drop.known_heads(), 0);
  EXPECT_FALSE(few.keep.heads[1].is_known());
  EXPECT_TRUE(std::isnan(few.keep.heads[1].logprob));
  EXPECT_FALSE(few.keep.layers[0].is_known());
  EXPECT_DOUBLE_EQ(few.keep.heads[2].gain, 1.0);
  EXPECT_EQ(few.keep.heads[2].at, (HeadIndex{1, 0}));
  EXPECT_FALSE(few.keep.minimal);
  EXPECT_TRUE(few.drop.minimal);

  const auto wrong = [&](const nlohmann::json& shape) {
    json["shape"] = shape;
    return test::error_of<std::runtime_error>([&] { read(); }, "read");
  };
  EXPECT_THAT(wrong({{"layers", 2}, {"heads", 2}}), HasSubstr("in order"));
  EXPECT_THAT(wrong({{"layers", 3}, {"heads", 1}}), HasSubstr("in order"));
  EXPECT_THAT(wrong({{"layers", 0}, {"heads", 2}}), HasSubstr("\"shape\""));
  EXPECT_THAT(wrong({{"layers", 1000000}, {"heads", 1000000}}), HasSubstr("\"shape\""));
  EXPECT_THAT(wrong({{"layers", 3}}), HasSubstr("\"heads\""));
  EXPECT_THAT(wrong("3x2"), HasSubstr("\"shape\""));
  json["keep"]["heads"].push_back(json["keep"]["heads"][0]);
  EXPECT_THAT(wrong({{"layers", 3}, {"heads", 2}}), HasSubstr("in order"));
}

TEST_F(EvaluationTest, WhatIsReadIsWrittenAgainByteForByte) {
  // Written by kvloupe-capture 0.2.0 before its results were structs.
  const fs::path files = fs::path(KVLOUPE_SOURCE_DIR) / "tests/analysis/results";
  const std::string again = (folder / "again.json").string();
  for (const char* name : {"needle.json", "perplexity.json"}) {
    const Evaluation evaluation = read_evaluation(files / name);
    write_evaluation(evaluation, again);
    std::string expected = test::file_text(files / name);
    const std::string version = "kvloupe 0.2.0";
    expected.replace(expected.find(version), version.size(), "kvloupe " KVLOUPE_VERSION);
    EXPECT_EQ(test::file_text(again), expected);
    // The same evaluation goes on, another does not.
    EvaluationSettings settings = evaluation;
    EXPECT_EQ(begun_evaluation(again, settings).runs.size(), evaluation.runs.size());
    ++settings.seed;
    EXPECT_THROW(begun_evaluation(again, settings), FileError);
  }
  write_rescue(*read_evaluation(files / "rescue.json").rescue, again);
  EXPECT_EQ(test::file_text(again), test::file_text(files / "rescue.json"));

  // A search that was stopped has no findings yet.
  const RescueResults begun = begun_rescue((files / "rescue.json").string()).value();
  EXPECT_EQ(begun.runs.size(), read_evaluation(files / "rescue.json").rescue->runs.size());
  write_rescue(begun, again);
  EXPECT_THAT(test::file_text(again), Not(HasSubstr("\"keep\"")));
  EXPECT_THAT(refused(test::file_text(again)), HasSubstr("is not complete; run the same"));
  EXPECT_EQ(begun_rescue(again)->runs.size(), begun.runs.size());
}

TEST_F(EvaluationTest, RefusesAnObjectWithTooManyMembers) {
  std::string many = "{\"format\":\"kvloupe-eval\"";
  for (int i = 0; i < 60'000; ++i) many += ",\"" + std::to_string(i) + "\":0";
  EXPECT_THAT(refused(many + "}"), HasSubstr("not valid JSON"));
}

TEST_F(EvaluationTest, RefusesABrokenRescue) {
  const std::string text = test::file_text(test::write_synthetic_rescue(folder / "rescue.json"));
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string changed = text;
    const std::size_t at = changed.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return refused(changed.replace(at, old.size(), now));
  };
  EXPECT_THAT(refused(text.substr(0, text.size() / 2)), HasSubstr("truncated"));
  EXPECT_THAT(with("\"predicted\"", "\"other\""), HasSubstr("is not complete; run the same"));
  EXPECT_THAT(with("\"layer\":1,", "\"layer\":7,"), HasSubstr("in order"));
  EXPECT_THAT(with("[[2,0]]", "[[3,0]]"), HasSubstr("\"layer\" outside"));
  EXPECT_THAT(with("[[2,0]]", "[2,0]"), HasSubstr("not two numbers"));
  EXPECT_THAT(with("\"tokens\":[5", "\"tokens\":[1e300"), HasSubstr("\"tokens\" outside"));
  EXPECT_THAT(with("\"tokens\":[5", "\"tokens\":[5.5"), HasSubstr("not a whole number"));
  EXPECT_THAT(with("\"rank_correlation\":1.0", "\"rank_correlation\":2"),
              HasSubstr("\"rank_correlation\" outside"));
  EXPECT_THAT(with("\"format_version\":1", "\"format_version\":2"), HasSubstr("newer"));
  EXPECT_THAT(with("\"policy\":{\"right\":false", "\"policy\":{\"right\":\"yes\""),
              HasSubstr("\"right\""));
}

}  // namespace
}  // namespace kvloupe

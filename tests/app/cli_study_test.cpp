// kvloupe study, as a person calls it.

#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct CliStudy : testing::Test {
  void SetUp() override {
    for (const std::string name : {"a.h5", "b.h5", "c.h5"}) {
      test::SyntheticTraceOptions options{.seed = static_cast<std::uint64_t>(name[0])};
      test::write_synthetic_trace(folder_ / name, options);  // T = 96 + 8, B = 32
    }
    std::ofstream(folder_ / "study.json")
        << R"({"traces": ["a.h5", "b.h5", "c.h5"], "policies": ["h2o", "keydiff"],
               "budgets": ["10%", 24], "blocks": [32, "all"],
               "measures": ["retained", "perturbation_l1"]})";
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static test::Called study(const std::vector<std::string>& arguments) {
    return test::call({"study"}, arguments);
  }
  test::Called compute() const { return study({path("study.json"), "-o", path("out.sqlite")}); }
  std::string csv() const { return study({path("out.sqlite"), "--csv", "-"}).out; }
  test::TemporaryFolder folder_;
};

TEST_F(CliStudy, TellsAProgramHowFarItIs) {
  const test::Called json =
      study({path("study.json"), "-o", path("out.sqlite"), "--progress", "json"});
  ASSERT_EQ(json.code, 0) << json.error;
  EXPECT_EQ(json.error, "");
  EXPECT_THAT(json.out, StartsWith(R"({"event":"items","done":0,"failed":0,"items":24,"text":)"));
  EXPECT_THAT(json.out, HasSubstr(R"("done":24,"failed":0,"items":24,"text":"24 of 24: )"));
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 25);
  const test::Called wrong =
      study({path("study.json"), "-o", path("out.sqlite"), "--progress", "bar"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.error, HasSubstr("lines, json or none"));
}

TEST_F(CliStudy, ComputesGoesOnAndPrints) {
  const test::Called first = compute();
  ASSERT_EQ(first.code, 0) << first.error;
  EXPECT_EQ(first.out, "");
  EXPECT_THAT(first.error, HasSubstr("24 items, 0 of them done before\n"));
  EXPECT_THAT(first.error, HasSubstr("24 of 24: "));
  EXPECT_THAT(compute().error, HasSubstr("24 items, 24 of them done before\n"));
  const test::Called status = study({path("out.sqlite"), "--status"});
  EXPECT_EQ(status.code, 0);
  EXPECT_THAT(status.out, StartsWith("24 items: 24 done, 0 failed, 0 waiting; "));
  const std::string table = csv();
  EXPECT_THAT(table, StartsWith("trace,policy,budget,entries,block,tokens,compression,measure,"
                                "layer,head,step,value,question,prompt_compressed,"
                                "budget_counts\n"));
  // A row per measure and head of 24 replays; ⌊10 % of 96⌋ = 9.
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 24 * 2 * 4);
  EXPECT_THAT(table, HasSubstr("\"b.h5\",\"keydiff\",\"10%\",9,all,96,regular,retained,1,0,,9,"
                               "query-agnostic,after read,each head\n"));
  const test::Called written = study({path("out.sqlite"), "--csv", path("out.csv"), "--summary"});
  EXPECT_THAT(written.out, HasSubstr("| keydiff | 10% | 32 | 3 | 9 [9, 9] | 0 [0, 0] |\n"));
  const std::string file = test::file_text(path("out.csv"));
  EXPECT_EQ(file, table);
}

TEST_F(CliStudy, ATruncatedTraceFailsAloneAndIsMadeUpForLater) {
  std::filesystem::copy(folder_ / "b.h5", folder_ / "whole.h5");
  std::filesystem::resize_file(folder_ / "b.h5", std::filesystem::file_size(folder_ / "b.h5") / 2);
  const test::Called first = compute();
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.error, HasSubstr("failed: b.h5, h2o, budget 10%, block 32: "));
  EXPECT_THAT(first.error, HasSubstr("kvloupe: 8 of 24 items failed; the others are in "));
  const std::string before = csv();
  EXPECT_EQ(std::count(before.begin(), before.end(), '\n'), 1 + 16 * 2 * 4);
  EXPECT_THAT(before, Not(HasSubstr("b.h5")));
  EXPECT_THAT(study({path("out.sqlite"), "--status"}).out, HasSubstr("\nfailed: b.h5, h2o"));
  std::filesystem::rename(folder_ / "whole.h5", folder_ / "b.h5");
  const test::Called second = compute();
  EXPECT_EQ(second.code, 0) << second.error;
  EXPECT_THAT(second.error, HasSubstr("24 items, 16 of them done before\n"));
  // The same as a study that had the whole trace from the beginning.
  const std::string after = csv();
  ASSERT_EQ(study({path("study.json"), "-o", path("new.sqlite")}).code, 0);
  EXPECT_EQ(study({path("new.sqlite"), "--csv", "-"}).out, after);
}

TEST_F(CliStudy, AMissingTraceIsSaidBeforeAnyWork) {
  std::filesystem::remove(folder_ / "b.h5");
  const test::Called outcome = compute();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("study.json: traces: \"b.h5\" is missing"));
  EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1);
  EXPECT_FALSE(std::filesystem::exists(path("out.sqlite")));
}

TEST_F(CliStudy, ShardsAreComputedAndJoined) {
  ASSERT_EQ(compute().code, 0);
  std::vector<std::string> join = {"--merge", "-o", path("joined.sqlite")};
  for (const std::string number : {"1", "2", "3"}) {
    const std::string part = path("part" + number + ".sqlite");
    const test::Called one = study({path("study.json"), "--shard", number + "/3", "-o", part});
    EXPECT_EQ(one.code, 0) << one.error;
    EXPECT_THAT(one.error,
                HasSubstr("shard " + number + " of 3: 8 items, 0 of them done before\n"));
    join.push_back(part);
  }
  const test::Called joined = study(join);
  EXPECT_EQ(joined.code, 0) << joined.error;
  EXPECT_EQ(joined.error, "24 items: 24 done, 0 failed, 0 waiting\n");
  EXPECT_EQ(study({path("joined.sqlite"), "--csv", "-"}).out, csv());
}

TEST_F(CliStudy, ATableIsPrintedOrWrittenByTheEndingOfItsFile) {
  ASSERT_EQ(compute().code, 0);
  // For replays: the study's first measure, at its first block size.
  const test::Called printed = study({path("out.sqlite"), "--table", "keydiff-8"});
  EXPECT_EQ(printed.code, 0) << printed.error;
  EXPECT_THAT(printed.out, HasSubstr("on all tasks.\n\n| Method | Budget | "));
  EXPECT_THAT(printed.out, HasSubstr("\n| KeyDiff | 10% | 9 [9, 9] |\n"));
  EXPECT_THAT(printed.out, HasSubstr("\n| SnapKV | 10% | – |\n"));
  EXPECT_THAT(printed.out, HasSubstr("Blocks of 32; compression: regular."));
  ASSERT_EQ(study({path("out.sqlite"), "--table", "keydiff-8", "--block", "all", "--measures",
                   "retained,perturbation_l1", "-o", path("t.csv")})
                .code,
            0);
  const std::string file = test::file_text(path("t.csv"));
  EXPECT_THAT(file, StartsWith("table,model,compression,block,policy,label,"));
  EXPECT_THAT(file, HasSubstr(",regular,all,\"h2o\","));
  EXPECT_EQ(study({path("out.sqlite"), "--table", "keydiff-8", "-o", path("t.xls")}).code, 2);
  EXPECT_EQ(study({path("out.sqlite"), "--table", "keydiff-9"}).code, 2);
  EXPECT_EQ(study({path("out.sqlite"), "--block", "32"}).code, 2);
  EXPECT_EQ(study({path("out.sqlite"), "--table", "keydiff-8", "--status"}).code, 2);
  EXPECT_EQ(study({path("none.sqlite"), "--table", "keydiff-8"}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(path("t.xls")));
}

TEST_F(CliStudy, AWordSaysWhatTheFlagsOfEarlierVersionsSaid) {
  ASSERT_EQ(study({"run", path("study.json"), "-o", path("out.sqlite")}).code, 0);
  const std::string results = path("out.sqlite");
  const auto same = [&](const std::vector<std::string>& word,
                        const std::vector<std::string>& flags) {
    const test::Called now = study(word);
    EXPECT_EQ(now.code, 0) << now.error;
    EXPECT_FALSE(now.out.empty()) << word.front();
    EXPECT_EQ(now.out, study(flags).out) << word.front();
  };
  same({"status", results}, {results, "--status"});
  same({"summary", results}, {results, "--summary"});
  same({"csv", results}, {results, "--csv", "-"});
  same({"table", "keydiff-8", results}, {results, "--table", "keydiff-8"});
  EXPECT_EQ(study({"csv", results, "-o", path("word.csv")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("word.csv")));
  EXPECT_EQ(study({"merge", results, "-o", path("joined.sqlite")}).code, 0);
  EXPECT_EQ(study({"csv", path("joined.sqlite")}).out, csv());
  for (const char* word : {"run", "status", "summary", "csv", "foretell", "merge", "table"}) {
    const test::Called alone = study({word});
    EXPECT_EQ(alone.code, 2) << word;
    EXPECT_THAT(alone.error, HasSubstr(std::string("write kvloupe study ") + word + " ")) << word;
  }
}

TEST_F(CliStudy, ACommandLineWithoutSenseIsRefused) {
  EXPECT_EQ(study({path("study.json"), "-o", path("out.sqlite"), "--shard", "4/3"}).code, 2);
  EXPECT_EQ(study({path("out.sqlite"), "--merge"}).code, 2);
  EXPECT_EQ(study({path("a.sqlite"), path("b.sqlite"), "--status"}).code, 2);
  EXPECT_EQ(study({}).code, 2);
  EXPECT_EQ(study({path("study.json")}).code, 2);
  EXPECT_EQ(study({path("study.json"), "-o", path("out.sqlite"), "--status"}).code, 2);
  EXPECT_EQ(study({path("none.sqlite"), "--status"}).code, 1);
  EXPECT_EQ(study({path("study.json"), "--status"}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(path("out.sqlite")));
}

TEST_F(CliStudy, AFileOfAnotherKindIsNamedByEveryVerbThatReadsResults) {
  std::ofstream(folder_ / "notes.txt") << "Some notes, and no results of a study.\n";
  const std::vector<std::vector<std::string>> verbs = {
      {"study", "status", ""},
      {"study", "summary", ""},
      {"study", "csv", ""},
      {"study", "foretell", "answer_found", ""},
      {"study", "table", "keydiff-8", ""},
      {"study", "merge", "", "-o", path("m.sqlite")},
      {"advise", "", "--loss", "retained"},
      {"report", "", "-o", path("r.html")}};
  for (std::vector<std::string> words : verbs) {
    const auto given = std::find(words.begin(), words.end(), "");
    const auto refusal = [&](const std::string& file) {
      *given = path(file);
      const test::Called outcome = test::call(words);
      EXPECT_EQ(outcome.code, 1) << words[0] << words[1];
      EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
      return outcome.error;
    };
    EXPECT_THAT(refusal("a.h5"),
                HasSubstr("is not a results file of a study but an HDF5 file, such "
                          "as a trace; give or choose another name"));
    EXPECT_THAT(refusal("notes.txt"),
                HasSubstr("is not a results file of a study; give or choose"));
  }
}

TEST_F(CliStudy, AdviseNamesBudgetsOrSaysWhatIsMissing) {
  std::ofstream(folder_ / "study.json")
      << R"({"traces": ["a.h5", "b.h5", "c.h5"], "policies": ["h2o", "keydiff"],
             "budgets": ["10%", 90], "blocks": [32], "measures": ["retained_mass", "ties"]})";
  ASSERT_EQ(compute().code, 0);
  const std::string results = path("out.sqlite");
  const auto advise = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"advise", results});
    return test::call(std::move(more));
  };
  // Three prompts are enough for a loss of at most 0.9: 0.1³ < 5 %.
  const test::Called told =
      advise({"--loss", "retained_mass", "--at-most", "0.9", "-o", path("b.csv")});
  EXPECT_EQ(told.code, 0) << told.error;
  EXPECT_THAT(told.out, HasSubstr("Loss: 1 − retained_mass, block 32."));
  EXPECT_THAT(told.out, HasSubstr("| keydiff | 90 | 90 |"));
  // Without --loss the order of all reports.
  EXPECT_THAT(advise({"--at-most", "0.9"}).out,
              AllOf(HasSubstr("Loss chosen by the program: retained_mass. The study does not have"),
                    HasSubstr("Loss: 1 − retained_mass")));
  std::ifstream csv(folder_ / "b.csv");
  std::string line;
  std::getline(csv, line);
  EXPECT_THAT(line, StartsWith("policy,budget,entries,prompts,mean_loss,bound"));
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(csv), {}, '\n'), 4);

  const auto refused = [&](std::vector<std::string> more, const std::string& said) {
    const test::Called outcome = advise(std::move(more));
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.error, HasSubstr(said));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  };
  refused({"--heads", path("h.csv"), "--json", path("./h.csv"), "--budget", "50%"}, "given twice");
  refused({"--loss", "retained_mass", "--at-most", "0.05"}, "has 3 prompts with all budgets");
  refused({"--loss", "retained_mass", "--at-most", "0.9", "--risk", "often"}, "such as 5%");
  refused({"--loss", "ties", "--at-most", "0.9"}, "whether more of it is better");
  refused({"--loss", "answer_found", "--at-most", "0.9"}, "it has retained_mass, ties");
}

TEST_F(CliStudy, AReportNamesTheStudyFileAndTheModelOfTheTraces) {
  std::ofstream(folder_ / "study.json")
      << R"({"traces": ["a.h5", "b.h5", "c.h5"], "policies": ["h2o", "keydiff"],
             "budgets": ["10%", 90], "blocks": [32], "measures": ["retained_mass", "ties"]})";
  ASSERT_EQ(compute().code, 0);
  std::ofstream(folder_ / "another.json") << R"({"traces": ["a.h5"]})";
  const test::Called outcome =
      test::call({"report", path("out.sqlite"), "--at-most", "0.9", "-o", path("r.html")});
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  const std::string html = test::file_text(path("r.html"));
  EXPECT_THAT(html, HasSubstr("kvloupe study run " + path("study.json") + " -o " +
                              path("out.sqlite") + "\n"));
  EXPECT_THAT(html, HasSubstr(" with a budget of 90 entries per head"));
  EXPECT_THAT(html, HasSubstr("3 traces: "));
  EXPECT_THAT(html, HasSubstr("; 96 tokens"));
  EXPECT_THAT(html, HasSubstr("2 layers, 4 heads"));
  // A study file with other settings is not of these results.
  std::ofstream(folder_ / "study.json")
      << R"({"traces": ["a.h5", "b.h5", "c.h5"], "policies": ["h2o"],
             "budgets": ["10%", 90], "blocks": [32], "measures": ["retained_mass", "ties"]})";
  ASSERT_EQ(test::call({"report", path("out.sqlite"), "-o", path("r.html")}).code, 0);
  EXPECT_THAT(test::file_text(path("r.html")), HasSubstr("kvloupe study run STUDY.json"));
}

}  // namespace
}  // namespace kvloupe

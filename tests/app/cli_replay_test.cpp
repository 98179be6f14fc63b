// kvloupe policies and kvloupe replay, as a person calls them.

#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/typed_values.h"
#include "tests/app/cli_call.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::call;

struct CliReplay : testing::Test, test::MadeTrace {
  CliReplay()
      : MadeTrace(test::SyntheticTraceOptions{}) {}  // 2 layers, 2 heads, T = 96 + 8, B = 32
  test::Called replay(const std::vector<std::string>& more) const {
    return call({"replay", path("trace.h5")}, more);
  }
};

TEST_F(CliReplay, PoliciesListsTheCatalogue) {
  const test::Called table = call({"policies"});
  EXPECT_EQ(table.code, 0);
  const test::Called json = call({"policies", "--json"});
  EXPECT_EQ(json.code, 0);
  const auto document = nlohmann::json::parse(json.out);
  ASSERT_EQ(document["policies"].size(), policy_catalog().size());
  for (std::size_t i = 0; i < policy_catalog().size(); ++i) {
    EXPECT_EQ(document["policies"][i]["name"], policy_catalog()[i].name);
    EXPECT_THAT(table.out, HasSubstr("\n" + policy_catalog()[i].name + " "));
  }
  EXPECT_EQ(document["policies"][1]["parameters"][0]["default"], 4);
}

TEST_F(CliReplay, InfoSaysWhatWasGivenToTheModel) {
  test::write_synthetic_trace(path("given.h5"), {.vocabulary = true});
  test::write_given(path("given.h5"), 8, {4, 5});
  const test::Called text = call({"info", path("given.h5")});
  EXPECT_THAT(text.out, HasSubstr("104 = 96 prompt + 8 given\n"));
  EXPECT_THAT(text.out, HasSubstr("The model's own answer: “wörd4 wörd5”"));
  EXPECT_THAT(text.out,
              HasSubstr("token 96 “ w96” · answer · given · the model would have chosen"));
  EXPECT_THAT(text.out, HasSubstr("  answer · given  tokens 96 to 103\n"));
  const auto json = nlohmann::json::parse(call({"info", path("given.h5"), "--json"}).out);
  EXPECT_EQ(json["run"]["given"], 8);
  EXPECT_EQ(json["given"]["others"][0]["token"], 96);
  EXPECT_EQ(json["given"]["own_answer"]["ids"], nlohmann::json({4, 5}));
  EXPECT_EQ(json["segments"][1]["name"], "answer");
  const test::Called chosen = call({"info", path("trace.h5")});
  EXPECT_THAT(chosen.out, HasSubstr("96 prompt + 8 generated"));
  EXPECT_THAT(chosen.out, Not(HasSubstr("given")));
}

TEST_F(CliReplay, MeasuresListsTheCatalogueUnderItsGroupsWithSentences) {
  const test::Called table = call({"measures"});
  ASSERT_EQ(table.code, 0);
  const auto document = nlohmann::json::parse(call({"measures", "--json"}).out);
  ASSERT_EQ(document["measures"].size(), all_measures().size());
  for (const auto& each : document["measures"]) {
    const auto name = each["name"].get<std::string>();
    const auto begin = table.out.find("\n    " + name + "  ");
    ASSERT_NE(begin, std::string::npos) << name << " runs into what follows, or is missing";
    const std::string line =
        table.out.substr(begin + 1, table.out.find('\n', begin + 1) - begin - 1);
    EXPECT_THAT(line, HasSubstr("  " + each["title"].get<std::string>() + ". " +
                                each["says"].get<std::string>()));
    EXPECT_EQ(table.out.rfind("\n" + each["group"].get<std::string>() + "\n", begin) ==
                      std::string::npos &&
                  !table.out.starts_with(each["group"].get<std::string>() + "\n"),
              false)
        << name << " stands below its group";
  }
}

TEST_F(CliReplay, JsonOnStandardOutput) {
  const test::Called outcome =
      replay({"--policy", "keydiff+recent(10%)", "--budget", "25%", "--json", "-", "--layers", "1",
              "--heads", "0", "--steps", "last"});
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["trace"], path("trace.h5"));
  EXPECT_EQ(document["policy"], "keydiff+recent");
  EXPECT_EQ(document["budget"], 24);  // 25 % of the prompt's 96
  EXPECT_EQ(document["block"], 32);
  ASSERT_EQ(document["heads"].size(), 1U);
  EXPECT_EQ(document["heads"][0]["layer"], 1);
  ASSERT_EQ(document["heads"][0]["steps"].size(), 1U);
  EXPECT_EQ(document["heads"][0]["steps"][0]["step"], 10);
  EXPECT_EQ(document["heads"][0]["steps"][0]["retained"].size(), 24U);
}

TEST_F(CliReplay, JsonInAFileIsTheSame) {
  const std::string file = path("out.json");
  ASSERT_EQ(replay({"--policy", "h2o", "--budget", "20", "--json", file}).code, 0);
  const std::string content = test::file_text(file);
  EXPECT_EQ(content, replay({"--policy", "h2o", "--budget", "20", "--json", "-"}).out);
  EXPECT_EQ(nlohmann::json::parse(content)["heads"].size(), 4U);
}

TEST_F(CliReplay, TheTableHasALinePerHeadAndStep) {
  const test::Called outcome =
      replay({"--policy", "snapkv", "--budget", "20", "--layers", "0-1", "--block", "48"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("note: snapkv protects up to 32"));
  // Title, note, bytes, the whole model, explanation, header; 4 heads of 2 + 8 steps.
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 6 + 4 * 10);
  EXPECT_THAT(outcome.out, HasSubstr("the caches hold "));
  EXPECT_THAT(outcome.out, HasSubstr("for the answer's 8 queries, each against what the cache "
                                     "holds when it comes: change of all heads together "));
}

TEST_F(CliReplay, AMergedCacheHasNoBound) {
  const test::Called table = replay({"--policy", "h2o+kvmerger(auto)", "--budget", "20", "--layers",
                                     "0", "--heads", "0", "--steps", "last"});
  ASSERT_EQ(table.code, 0) << table.error;
  EXPECT_THAT(table.out, HasSubstr("note: the bound of the perturbation does not hold"));
  std::istringstream last(table.out.substr(table.out.rfind('\n', table.out.size() - 2) + 1));
  std::vector<std::string> cells;
  for (std::string cell; last >> cell;) cells.push_back(cell);
  ASSERT_EQ(cells.size(), 10U);
  EXPECT_NE(cells[7], "-");  // perturbation
  EXPECT_EQ(cells[8], "-");  // bound
}

TEST_F(CliReplay, ExplainsWhyATokenStaysOrLeaves) {
  const test::Called text =
      replay({"--policy", "sink(2)", "--budget", "10", "--explain", "23", "--layers", "1"});
  ASSERT_EQ(text.code, 0) << text.error;
  EXPECT_THAT(text.out, HasSubstr("layer 1, head 0: entered at step 0, evicted at step 0"));
  EXPECT_THAT(text.out, HasSubstr("evicted: score 23, rank 9 of 32, threshold 24, margin −1"));
  const test::Called json = replay({"--policy", "sink(2)", "--budget", "10", "--explain", "0",
                                    "--heads", "1", "--steps", "last", "--json", "-"});
  ASSERT_EQ(json.code, 0) << json.error;
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["token"], 0);
  ASSERT_EQ(document["heads"].size(), 2U);
  ASSERT_EQ(document["heads"][0]["steps"].size(), 1U);
  EXPECT_EQ(document["heads"][0]["steps"][0]["fate"], "sink");
  EXPECT_TRUE(document["heads"][0]["left"].is_null());
  test::expect_refused(
      {"replay", path("trace.h5"), "--policy", "sink", "--budget", "10", "--explain", "104"}, 2,
      "token 104: the trace has tokens 0 to 103");
}

TEST_F(CliReplay, WhatIsWrongWithTheCommandLineExitsTwo) {
  const auto refused = [&](std::vector<std::string> words, const char* says) {
    words.insert(words.begin(), {"replay", path("trace.h5"), "--policy"});
    test::expect_refused(words, 2, says);
  };
  refused({"keydif", "--budget", "9"}, "'keydif' at column 1");
  refused({"keydiff", "--budget", "0"}, "budget '0'");
  refused({"keydiff", "--budget", "x%"}, "budget 'x%'");
  refused({"keydiff", "--budget", "9", "--layers", "2"}, "layer 2");
  refused({"keydiff", "--budget", "9", "--layers", "1-"}, "layer ''");
  refused({"keydiff", "--budget", "9", "--heads", "0,5"}, "head 5");
  refused({"keydiff", "--budget", "9", "--heads", "1-0"}, "backwards");
  refused({"keydiff", "--budget", "9", "--steps", "some"}, "--steps");
  refused({"keydiff", "--budget", "9", "--block", "0"}, "--block");
  refused({"keydiff"}, "--budget");
}

TEST_F(CliReplay, WhatIsWrongWithAFileExitsOneAndLeavesNothing) {
  const auto refused = [&](const char* trace, const std::string& policy, const std::string& json) {
    test::expect_refused(
        {"replay", path(trace), "--policy", policy, "--budget", "9", "--json", path(json)}, 1,
        trace == std::string("none.h5") ? trace
        : policy == "h2o"               ? json
                                        : "none.json");
  };
  refused("none.h5", "h2o", "o.json");
  refused("trace.h5", "h2o", "no/such/out.json");
  refused("trace.h5", "external(\"" + path("none.json") + "\")", "o.json");
  EXPECT_FALSE(std::filesystem::exists(path("o.json")));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
}

TEST(IndexList, ListsAndRanges) {
  EXPECT_THAT(parse_index_list("0-3,7,2", "layer", 8), ElementsAre(0, 1, 2, 3, 7));
  for (const char* wrong :
       {"", ",", "a", "1,", "-1", "3-", "2-1", "8", "0-8", "1.5", "99999999999"}) {
    EXPECT_THROW(parse_index_list(wrong, "layer", 8), UsageError) << wrong;
  }
}

}  // namespace
}  // namespace kvloupe

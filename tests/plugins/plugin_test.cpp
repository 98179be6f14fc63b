// Scores from shared libraries (docs/plugins.md): equal to the program's own scores that they write
// again, and every way in which a plugin can be wrong.

#include "analysis/math/rope.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/policy_files.h"
#include "analysis/policy/policy_text.h"
#include "analysis/policy/random_line.h"
#include "app/window/state/preferences.h"
#include "tests/app/cli_call.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

std::string module_path(const std::string& name) {
  return std::string(KVLOUPE_TEST_PLUGINS) + "/" + name + ".so";
}

/// Before anything reads the catalogue.
const bool loaded = [] {
  for (const char* name : {"small_keys", "witnesses", "bad_scores", "plain_c"}) {
    load_plugin(module_path(name));
  }
  load_plugin(module_path("witnesses"));  // twice is once
  return true;
}();

TEST(PluginScores, AChanceLineKeepsWhatTheirScoreKeeps) {
  EXPECT_EQ(random_line(parse_policy("w_window(window=6)")).text(), "random+recent(6)");
  EXPECT_EQ(random_line(parse_policy("w_keydiff")).text(), "random");
}

struct Plugins : testing::Test {
  static void SetUpTestSuite() {
    ASSERT_TRUE(loaded);
    folder_ = new test::TemporaryFolder;
    test::SyntheticTraceOptions options;  // 2 layers, 2 heads, 4 query heads, T = 96 + 8, B = 32
    options.clusters = 5;
    states_ = new test::SyntheticStates(test::write_synthetic_trace(path(), options));
  }
  static void TearDownTestSuite() {
    delete states_;
    delete folder_;
  }
  static std::string path() { return (*folder_ / "trace.h5").string(); }

  static Replay replayed(const std::string& policy, int budget = 20, int block = 0) {
    ReplayRequest request{
        .policy = parse_policy(policy), .budget = budget, .block = block, .metrics = false};
    return replay(Trace(path()), request, test::unwatched);
  }

  /// The error of a replay that fails.
  static std::string failure(const std::string& policy, int block = 0) {
    return test::error_of<FileError>([&] { replayed(policy, 20, block); }, "no failure");
  }

  static void expect_equal(const Replay& a, const Replay& b, const std::string& what) {
    ASSERT_EQ(a.heads.size(), b.heads.size());
    int evicting = 0;
    for (std::size_t h = 0; h < a.heads.size(); ++h) {
      const int steps = static_cast<int>(a.heads[h].steps.size());
      for (int step = 0; step < steps; ++step) {
        ASSERT_EQ(a.retained_at(a.heads[h], step), b.retained_at(b.heads[h], step))
            << what << ", head " << h << ", step " << step;
        const StepRecord& record = a.heads[h].steps[step];
        evicting += record.retained < record.cache_size;
      }
    }
    EXPECT_GT(evicting, 0) << what;
  }

  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline test::SyntheticStates* states_ = nullptr;
};

struct Pair {
  const char* plugin;
  const char* own;
};

TEST_F(Plugins, KeepTheSetsOfTheScoresThatTheyWriteAgain) {
  for (const auto& [plugin, own] :
       {Pair{"smallkeys", "keynorm"}, Pair{"smallkeys(power=2)", "keynorm"},
        Pair{"w_keydiff", "keydiff"}, Pair{"w_h2o", "h2o"},
        Pair{"w_window(window=6)", "snapkv(6,kernel=1)"},
        Pair{"w_valuenorm", "expr(\"value_norm\")"}, Pair{"c_first", "expr(\"0-position\")"}}) {
    for (const int block : {7, 32, 96}) {
      for (const int budget : {9, 24, 60}) {
        expect_equal(replayed(plugin, budget, block), replayed(own, budget, block),
                     std::string(plugin) + " and " + own);
      }
    }
  }
}

TEST_F(Plugins, TakeModifiers) {
  for (const char* modifiers : {"+recent(20%)+sinks(2)", "+pyramid(1.5)", "+chunks(4)", "+cam",
                                "+kvmerger(auto)", "+keep(\"3-5\")", "+tome"}) {
    for (const auto& [plugin, own] :
         {Pair{"smallkeys", "keynorm"}, Pair{"w_keydiff", "keydiff"}, Pair{"w_h2o", "h2o"},
          Pair{"w_window(window=6)", "snapkv(6,kernel=1)"}}) {
      expect_equal(replayed(plugin + std::string(modifiers)),
                   replayed(own + std::string(modifiers)), std::string(plugin) + modifiers);
    }
  }
  // Those that compute with the scores.
  for (const char* modifiers : {"+adakv", "+caote", "+critical", "+adakv+critical"}) {
    expect_equal(replayed("w_window(window=6)" + std::string(modifiers)),
                 replayed("snapkv(6,kernel=1)" + std::string(modifiers)), modifiers);
  }
}

TEST_F(Plugins, AScaleThatAModifierCannotUseIsRefusedOrNoted) {
  // As with keynorm, whose scores are negative and have a scale for each head.
  const auto doubts = [](const std::string& policy) {
    return policy_notes(parse_policy(policy), ModelInfo{states_->model}, 20);
  };
  EXPECT_EQ(doubts("smallkeys+caote").size(), doubts("keynorm+caote").size());
  EXPECT_EQ(doubts("smallkeys+adakv").size(), doubts("keynorm+adakv").size());
}

TEST_F(Plugins, SeeKeysBeforeTheirRotation) {
  const Replay result = replayed("w_before_rope(coordinate=3)", 12, 96);
  const Rope rope(states_->model);
  for (const HeadReplay& head : result.heads) {
    const Matrix& keys = states_->key[head.layer][head.head];
    std::vector<std::pair<float, std::int32_t>> order;
    for (std::int32_t token = 0; token < 96; ++token) {
      std::vector<float> key(keys.row(token).data(), keys.row(token).data() + keys.cols());
      rope.turn(std::span<float>(key), -static_cast<double>(token));
      order.emplace_back(key[3], token);
    }
    std::sort(order.rbegin(), order.rend());
    std::vector<std::int32_t> expected;
    for (int i = 0; i < 12; ++i) expected.push_back(order[i].second);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(result.retained_at(head, 0), expected);
  }
}

TEST_F(Plugins, SeeTheQueriesOfTheStep) {
  const Replay result = replayed("w_first_query", 12, 96);
  for (const HeadReplay& head : result.heads) {
    const auto layer = static_cast<std::size_t>(head.layer);
    const Matrix& keys = states_->key[layer][head.head];
    const Matrix& queries = states_->query[layer][head.head * states_->model.group_size()];
    std::vector<std::pair<double, std::int32_t>> order;
    for (std::int32_t token = 0; token < 96; ++token) {
      order.emplace_back(queries.row(0).cast<double>().dot(keys.row(token).cast<double>()), token);
    }
    std::sort(order.rbegin(), order.rend());
    std::vector<std::int32_t> expected;
    for (int i = 0; i < 12; ++i) expected.push_back(order[i].second);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(result.retained_at(head, 0), expected);
  }
}

TEST_F(Plugins, AreToldTheParametersTheLayerAndTheRolesOfEntries) {
  EXPECT_THAT(failure("w_tell"),
              HasSubstr("count=2 number=0.500000 flag=0 share=2 word=one text=some text layer="));
  const std::string told =
      failure("w_tell(7,0.25,1,50%,two,\"a, b\")+sinks(2)+recent(3)", 32);  // at the first step
  EXPECT_THAT(told, HasSubstr("count=7 number=0.250000 flag=1 share=10 word=two text=a, b layer="));
  EXPECT_THAT(told, HasSubstr("/2 heads=2/4 d=16 budget=20/20 block=0-32 roles=BB" +
                              std::string(27, 'N') + "BBB"));
  EXPECT_THAT(failure("w_tell(share=6)"), HasSubstr("share=6"));
}

TEST_F(Plugins, ParametersAreCheckedAsAllAre) {
  EXPECT_EQ(parse_policy("smallkeys(power=2)+recent(10%)").text(), "smallkeys(2)+recent");
  EXPECT_EQ(parse_policy("smallkeys(1)").text(), "smallkeys");
  EXPECT_THROW(parse_policy("smallkeys(power=9)"), UsageError);
  EXPECT_THROW(parse_policy("smallkeys(strength=1)"), UsageError);
  EXPECT_THROW(parse_policy("w_tell(word=three)"), UsageError);
  EXPECT_THROW(parse_policy("w_tell(count=1.5)"), UsageError);
}

TEST_F(Plugins, AreInTheCatalogueAndItsPages) {
  const PolicyEntry* entry = find_policy("smallkeys");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->kind(), PartKind::score);
  const std::string file = fs::canonical(module_path("small_keys")).string();
  ASSERT_NE(origin_of("smallkeys"), nullptr);
  EXPECT_EQ(origin_of("smallkeys")->file, file);
  EXPECT_EQ(origin_of("keynorm"), nullptr);
  const test::Called table = test::call({"policies"});
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("\nsmallkeys "), HasSubstr("plugin: " + file), HasSubstr("power=1")));
  const auto json = nlohmann::json::parse(test::call({"policies", "--json"}).out);
  const auto found = std::find_if(json["policies"].begin(), json["policies"].end(),
                                  [](const auto& one) { return one["name"] == "smallkeys"; });
  ASSERT_NE(found, json["policies"].end());
  EXPECT_EQ((*found)["plugin"], file);
  EXPECT_EQ((*found)["kind"], "score");
  EXPECT_EQ((*found)["cost"], "n d products");
  EXPECT_EQ((*found)["needs"], "token indices, keys");
  EXPECT_EQ(find_policy("w_h2o")->needs, "token indices, keys, queries, the attention of a step");
  EXPECT_EQ(find_policy("w_valuenorm")->needs, "token indices, keys, values");
  EXPECT_EQ((*found)["parameters"][0]["maximum"], 4);
  EXPECT_FALSE(json["policies"][0].contains("plugin"));
  EXPECT_THAT(policies_markdown(), HasSubstr("### smallkeys"));
}

TEST_F(Plugins, ResultsBelongToTheFile) {
  const std::string files = policy_files(parse_policy("smallkeys"));
  EXPECT_THAT(files, HasSubstr(fs::canonical(module_path("small_keys")).string() + "="));
  EXPECT_EQ(policy_files(parse_policy("keynorm")), "");
  EXPECT_THAT(policy_plugins(parse_policy("smallkeys+recent")),
              ElementsAre(fs::canonical(module_path("small_keys")).string()));
  EXPECT_TRUE(policy_plugins(parse_policy("keynorm")).empty());
  ASSERT_EQ(loaded_plugins().size(), 4U);
  EXPECT_EQ(loaded_plugins()[0].name, "small keys");
  EXPECT_THAT(loaded_plugins()[0].scores, ElementsAre("smallkeys"));
  EXPECT_EQ(loaded_plugins()[3].name, "plain C");
}

struct Failing {
  const char* policy;
  const char* said;
};

TEST_F(Plugins, AScoreThatFailsSaysWhichAndWhere) {
  replayed("b_good");
  const std::string file = fs::canonical(module_path("bad_scores")).string();
  for (const auto& [policy, said] : {
           Failing{"b_throws",
                   "the score b_throws at layer 1, head 1, step 2: the table?is too "
                   "small"},
           Failing{"b_observe", "step 0: an exception that is not a std::exception"},
           Failing{"b_retain", "step 0: nothing to forget"},
           Failing{"b_made", "the score b_made at layer 1: no such layer in my table"},
           Failing{"b_nan",
                   "the score b_nan at layer 1, head 0, step 0: the score of token 3 is "
                   "not a finite number"},
           Failing{"b_half", "the score of token 0 is not a finite number"},
           Failing{"b_negative", "the score of token 2 is negative"},
           Failing{"b_reads", "the attention could not be computed"},
           Failing{"b_asks", "asks for 1 rows of attention of query head 99"},
           Failing{"b_protects", "protects a negative number of entries"},
       }) {
    const std::string line = failure(policy);
    EXPECT_THAT(line, AllOf(StartsWith(file + ": "), HasSubstr(said))) << policy;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST_F(Plugins, TheProgramEndsWithOneLine) {
  const test::Called outcome = test::call({"replay", path(), "--policy", "b_throws", "--budget",
                                           "20", "--json", (*folder_ / "kept.json").string()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("bad_scores.so: the score b_throws at layer 1, head 1"));
  EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1);
  EXPECT_FALSE(fs::exists(*folder_ / "kept.json"));
}

struct Refused {
  int number;
  const char* said;
};

TEST_F(Plugins, APluginThatIsWrongIsRefusedInOneLine) {
  for (const auto& [number, said] : {
           Refused{0, "does not have the symbol kvloupe_policy_plugin"},
           Refused{1,
                   "is built for version 42 of the policy interface, this program has version "
                   "1; build the plugin again"},
           Refused{2, "while it registers its scores: boom"},
           Refused{3, "the symbol kvloupe_policy_plugin is not whole"},
           Refused{4, "a score has 16 bytes"},
           Refused{5, "the name keydiff is taken; give the score another"},
           Refused{6, "\"small keys\" is not a valid name"},
           Refused{7, "while it registers its scores: no licence today"},
           Refused{8, "x_range: the parameter power has the default 9, which is not in its range"},
           Refused{9, "registers no score"},
           Refused{10, "the name x_twice is taken"},
           Refused{11, "x_words: the parameter mode has the default \"fast\""},
           Refused{12, "x_same has two parameters a"},
           Refused{13, "x_source needs a summary, a formula and a source"},
       }) {
    const std::string file = module_path("bad_plugin_" + std::to_string(number));
    const test::Called outcome = test::call({"policies", "--plugin", file});
    EXPECT_EQ(outcome.code, 1) << number;
    EXPECT_EQ(outcome.out, "") << number;
    EXPECT_THAT(outcome.error,
                AllOf(HasSubstr(fs::canonical(file).string() + ": "), HasSubstr(said)));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  }
  EXPECT_EQ(find_policy("x_good"), nullptr) << "a plugin with one wrong score adds none";
  EXPECT_EQ(loaded_plugins().size(), 4U);
}

TEST_F(Plugins, WhatIsNotASharedLibraryIsRefused) {
  const auto said = [](const std::string& file) {
    const test::Called outcome = test::call({"policies", "--plugin", file});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    return outcome.error;
  };
  EXPECT_THAT(said((*folder_ / "none.so").string()), HasSubstr("none.so: does not exist"));
  EXPECT_THAT(said(folder_->path().string()), HasSubstr("is not a file"));
  std::ofstream(*folder_ / "text.so") << "not a library";
  EXPECT_THAT(said((*folder_ / "text.so").string()), HasSubstr("is not a shared library"));
  std::ofstream(*folder_ / "empty.so");
  EXPECT_THAT(said((*folder_ / "empty.so").string()), HasSubstr("is not a shared library"));
  EXPECT_THAT(said(KVLOUPE_SOURCE_DIR "/README.md"), HasSubstr("is not a shared library"));
  // Cut at many places: each is one line, and no crash.
  const std::string whole = test::file_text(module_path("witnesses"));
  ASSERT_GT(whole.size(), 10'000U);
  for (std::size_t part = 1; part < 12; ++part) {
    const std::string file = (*folder_ / ("cut" + std::to_string(part) + ".so")).string();
    std::ofstream(file, std::ios::binary) << whole.substr(0, whole.size() * part / 16);
    EXPECT_THAT(said(file), testing::AnyOf(HasSubstr("is cut off"), HasSubstr("cannot be loaded")))
        << part;
  }
}

TEST_F(Plugins, TheOptionIsGivenWithEveryVerbAndRepeated) {
  const std::string one = module_path("small_keys");
  EXPECT_EQ(test::call({"--plugin", one, "policies", "--plugin", module_path("plain_c")}).code, 0);
  EXPECT_EQ(test::call({"policies", "--plugin", one, "--plugin", module_path("plain_c")}).code, 0);
  // It takes one file, and leaves the rest of the line alone.
  const test::Called replay = test::call({"replay", "--plugin", one, path(), "--policy",
                                          "smallkeys", "--budget", "20", "--steps", "last"});
  EXPECT_EQ(replay.code, 0) << replay.error;
  EXPECT_THAT(replay.out, HasSubstr("smallkeys, budget 20"));
  EXPECT_EQ(test::call({"policies", "--plugin"}).code, 2);
}

TEST_F(Plugins, PreferencesThatNameWrongFilesAreLinesAndNoMore) {
  const fs::path file = *folder_ / "preferences.json";
  std::ofstream(file) << nlohmann::json(
      {{"plugins", {module_path("small_keys"), "/none/at all.so", module_path("bad_plugin_0")}}});
  const std::vector<std::string> problems = window::load_preferred_plugins(file);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_THAT(problems[0], HasSubstr("/none/at all.so: does not exist"));
  EXPECT_THAT(problems[1], HasSubstr("does not have the symbol"));
  EXPECT_TRUE(window::load_preferred_plugins(*folder_ / "none.json").empty());
}

TEST_F(Plugins, TheDocsShowTheExampleAsItIs) {
  const fs::path source = KVLOUPE_SOURCE_DIR;
  const std::string docs = test::file_text(source / "docs/plugins.md");
  const std::string policy =
      test::file_text(source / "tests/examples/policy-plugin/small_keys.cpp");
  const std::string build = test::file_text(source / "tests/examples/policy-plugin/CMakeLists.txt");
  EXPECT_LE(std::count(policy.begin(), policy.end(), '\n'), 40);
  EXPECT_THAT(docs, HasSubstr("```cpp\n" + policy + "```\n"));
  EXPECT_THAT(docs, HasSubstr("```cmake\n" + build + "```\n"));
}

}  // namespace
}  // namespace kvloupe

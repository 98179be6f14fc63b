// The line of chance beside a policy: what it carries of the policy, and what a study makes of it.

#include "analysis/policy/random_line.h"
#include "analysis/policy/kit/stages.h"
#include "analysis/study/study.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

std::string line_of(const std::string& spec) { return random_line(parse_policy(spec)).text(); }

TEST(RandomLine, HasTheProtectionAndTheScheduleAndNothingElse) {
  EXPECT_EQ(line_of("h2o"), "random");
  EXPECT_EQ(line_of("keydiff+recent(25%)+sinks(2)+adakv+critical+every(32)"),
            "random+recent(25%)+sinks(2)+every(32)");
  EXPECT_EQ(line_of("rkv(8)+protect_prompt+slack(5)+quant"),
            "random+recent(8)+protect_prompt+slack(5)");
  EXPECT_EQ(line_of("snapkv(16)+recent(50%)"), "random+recent(50%)") << "the modifier counts";
  EXPECT_EQ(line_of("random(seed=3)+sinks"), "random+sinks");
}

/// What a score protects, as the score itself says, against what the line has.
TEST(RandomLine, ProtectsWhatEachScoreOfTheCatalogueProtects) {
  LayerContext context;
  context.model.num_layers = context.model.num_heads = context.model.num_kv_heads = 1;
  context.model.head_dim = 4;
  context.budget = 16;
  context.prompt_length = 32;
  const auto protection_of = [&](const SpecPart& part) {
    return find_policy(part.name)->as<ScoreBuilder>()->make(part, context)->protection();
  };
  int protecting = 0;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.as<ScoreBuilder>() == nullptr || !test::stands_alone(entry)) continue;
    if (entry.traits.reads_probe || entry.traits.needs_future) continue;
    const PolicySpec policy = parse_policy(entry.example.empty() ? entry.name : entry.example);
    const Protection own = protection_of(policy.score());
    const PolicySpec line = random_line(policy);
    const SpecPart* first = line.find("sinks");
    const SpecPart* last = line.find("recent");
    EXPECT_EQ(own.sink_tokens, first != nullptr ? first->count("n") : 0) << policy.text();
    EXPECT_EQ(own.window, last != nullptr ? last->share("r", 0) : 0) << policy.text();
    protecting += own.most() > 0 ? 1 : 0;
  }
  EXPECT_GE(protecting, 10);
}

TEST(RandomLine, HasTheQuarterOfPoliciesThatKeepAtMostThat) {
  EXPECT_EQ(random_line(parse_policy("epikv+every(16)")).text(), "random+recent(25%)+every(16)");
  EXPECT_EQ(random_line(parse_policy("thinkv(recent=0)")).text(), "random");
  EXPECT_EQ(random_line(parse_policy("epikv+recent(3)")).text(), "random+recent(3)");
}

/// Facts of a policy belong to its entry, where a new policy finds their fields.
TEST(RandomLine, NoPolicyIsAskedForByName) {
  const std::set<std::string> of_the_line = {"random", "sinks", "recent"};
  for (const std::string file : {"policy/random_line.cpp", "study/head_advice.cpp"}) {
    const std::string source = test::file_text(KVLOUPE_SOURCE_DIR "/analysis/" + file);
    ASSERT_FALSE(source.empty()) << file;
    for (const PolicyEntry& entry : policy_catalog()) {
      if (of_the_line.contains(entry.name)) continue;
      EXPECT_EQ(source.find("\"" + entry.name + "\""), std::string::npos) << file << entry.name;
    }
  }
}

TEST(RandomLine, ActsWhereThePolicyActs) {
  test::MadeTrace made_trace({.layers = 1, .prompt_length = 40, .generated = 20, .block = 20});
  const Trace& trace = made_trace.trace();
  for (const char* spec : {"rkv(4)+every(6)", "h2o+protect_prompt(1)+slack(3)", "vase(4)+only"}) {
    const auto acts = [&](const PolicySpec& policy) {
      const Replay replayed = replay(trace, {.policy = policy, .budget = 16}, test::unwatched);
      std::vector<int> leave(replayed.blocks.size(), 0);
      for (const std::int32_t step : replayed.heads.front().evicted_at) {
        if (step >= 0) ++leave[step];
      }
      return leave;
    };
    const PolicySpec policy = parse_policy(spec);
    EXPECT_EQ(acts(policy), acts(random_line(policy))) << spec;
  }
}

TEST(RandomLine, OfSeveralPoliciesNoneStandsTwice) {
  const auto texts = [](const std::string& list) {
    std::vector<std::string> found;
    for (const PolicySpec& line : random_lines(parse_policy_list(list)))
      found.push_back(line.text());
    return found;
  };
  EXPECT_THAT(texts("h2o,keydiff,full,snapkv(8)"), ElementsAre("random", "random+recent(8)"));
  EXPECT_THAT(texts("h2o+sinks,random+sinks"), IsEmpty()) << "there already";
  EXPECT_THAT(texts("full,random(seed=1)"), IsEmpty());
}

TEST(RandomLine, IsNamedByWhatItIsTheLineOf) {
  const auto name = [](const std::string& spec, const std::string& list) {
    return random_line_name(parse_policy(spec), parse_policy_list(list));
  };
  EXPECT_EQ(name("random+sinks", "h2o+sinks,keydiff+sinks,full,random+sinks"),
            "random, same protection");
  EXPECT_EQ(name("random+sinks", "h2o+sinks,keydiff,random+sinks"), "random+sinks");
  EXPECT_EQ(name("random+sinks", "h2o,random+sinks"), "") << "another protection";
  EXPECT_EQ(name("random(seed=1)", "h2o,random(seed=1)"), "random, same protection");
  EXPECT_EQ(name("random+adakv", "h2o+adakv"), "") << "not a line but a policy";
  EXPECT_EQ(name("h2o", "h2o"), "");
}

TEST(RandomLine, AStudyAsksForThem) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a.h5") << "";
  const auto policies = [&](const std::string& field) {
    std::ofstream(folder / "study.json")
        << R"({"traces": ["a.h5"], "policies": ["h2o+sinks", "rkv(8)+every"], "budgets": [8],)"
        << R"("measures": ["retained"])" << field << "}";
    std::vector<std::string> texts;
    for (const PolicySpec& policy : read_study(folder / "study.json").policies)
      texts.push_back(policy.text());
    return texts;
  };
  EXPECT_THAT(policies(R"(, "random_lines": true)"),
              ElementsAre("h2o+sinks", "rkv+every", "random+sinks", "random+recent(8)+every"));
  EXPECT_THAT(policies(R"(, "random_lines": false)"), ElementsAre("h2o+sinks", "rkv+every"));
  EXPECT_THAT(test::error_of<std::exception>([&] { policies(R"(, "random_lines": "yes")"); }),
              HasSubstr("random_lines: write true or false"))
      << "a text is neither true nor false";
}

}  // namespace
}  // namespace kvloupe

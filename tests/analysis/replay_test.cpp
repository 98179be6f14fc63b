// Properties of every policy of the catalogue, replayed on a trace.

#include "analysis/base/system/blas.h"
#include "analysis/base/system/output_file.h"
#include "analysis/replay/kept_sets_file.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/record_values.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

extern "C" {
void openblas_set_num_threads(int);
int openblas_get_num_threads(void);
}

namespace kvloupe {
namespace {

/// These and every score in every word and flag of its parameters.
std::vector<std::string> catalogue_specs() {
  std::vector<std::string> specs = test::catalogue_specs();
  for (const PolicyEntry& score : policy_catalog()) {
    if (score.as<ScoreBuilder>() == nullptr || !test::stands_alone(score)) continue;
    for (const ParameterInfo& parameter : score.parameters) {
      for (const std::string& word : parameter.words) {
        if (word == "repeat") continue;  // reads a probe, which these traces lack
        specs.push_back(score.name + "(" + parameter.name + "=" + word + ")");
      }
      if (parameter.type == ParameterType::flag) {
        specs.push_back(score.name + "(" + parameter.name + "=1)");
      }
    }
  }
  return specs;
}

struct ReplayTest : testing::Test {
  static test::MadeTrace& made() {
    static test::MadeTrace one({.generated = 5});
    return one;
  }
  static Replay run(const std::string& spec, int budget, int block = 0) {
    return made().run(spec, budget, {.block = block});
  }
  static Replay run(const ReplayRequest& request) {
    return replay(made().trace(), request, test::unwatched);
  }
  static std::string path(const std::string& name) { return made().path(name); }
  static void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
  }
};

void expect_same(const Replay& a, const Replay& b) {
  ASSERT_EQ(a.heads.size(), b.heads.size());
  for (std::size_t i = 0; i < a.heads.size(); ++i) {
    EXPECT_EQ(a.heads[i].evicted_at, b.heads[i].evicted_at);
    ASSERT_EQ(a.heads[i].steps.size(), b.heads[i].steps.size());
    for (std::size_t s = 0; s < a.heads[i].steps.size(); ++s) {
      const StepRecord& one = a.heads[i].steps[s];
      const StepRecord& two = b.heads[i].steps[s];
      const Measure& volume = require_measure("log_pseudo_determinant");
      EXPECT_EQ(measure_at(volume, one), measure_at(volume, two));
      ASSERT_EQ(one.query_heads.size(), two.query_heads.size());
      for (std::size_t q = 0; q < one.query_heads.size(); ++q) {
        EXPECT_EQ(test::metrics_of(one)[q].retained_mass, test::metrics_of(two)[q].retained_mass);
        EXPECT_EQ(test::metrics_of(one)[q].perturbation_l1,
                  test::metrics_of(two)[q].perturbation_l1);
      }
    }
  }
}

TEST_F(ReplayTest, TheNumberOfBlasThreadsIsPutBack) {
  openblas_set_num_threads(2);
  run("h2o", 10);
  EXPECT_EQ(openblas_get_num_threads(), 2);
  {
    const OneBlasThread outer;
    run("h2o", 10);
    EXPECT_EQ(openblas_get_num_threads(), 1) << "another one still lives";
  }
  EXPECT_EQ(openblas_get_num_threads(), 2);
  openblas_set_num_threads(1);
}

TEST_F(ReplayTest, AdaKvSharesOutExactlyTheLayersEntries) {
  for (const std::string spec : {"h2o+adakv", "snapkv(8)+adakv(0.5)", "tova+recent(3)+adakv(0)",
                                 "h2o+adakv(0.4,mode=mix)", "keydiff+adakv", "h2o+adakv(1)"}) {
    const bool mix = spec.find("mix") != std::string::npos;
    for (const int budget : {1, 4, 9, 40}) {
      const Replay result = run(spec, budget, 16);
      bool differ = false;
      for (int layer = 0; layer < 2; ++layer) {
        const HeadReplay& first = *result.find(layer, 0);
        const HeadReplay& second = *result.find(layer, 1);
        for (std::size_t s = 0; s < first.steps.size(); ++s) {
          const int before = first.steps[s].cache_size + second.steps[s].cache_size;
          const int after = first.steps[s].retained + second.steps[s].retained;
          const int drift = first.steps[s].allocation_drift;
          differ |= first.steps[s].retained != second.steps[s].retained;
          if (before <= 2 * budget) {
            ASSERT_EQ(after, before) << spec;
          } else {
            ASSERT_EQ(after, 2 * budget + drift) << spec;
            ASSERT_EQ(second.steps[s].allocation_drift, drift);
            ASSERT_LE(std::abs(drift), mix ? 2 : 0) << spec;
          }
        }
      }
      if (spec.find("adakv(1)") != std::string::npos) {
        EXPECT_FALSE(differ) << spec;
      } else if (budget == 9) {
        EXPECT_TRUE(differ) << spec;
      }
    }
  }
}

TEST_F(ReplayTest, PyramidKeepsTheBudgetInTheMeanOfTheLayers) {
  for (const int budget : {4, 9, 40, 70}) {
    const Replay result = run("tova+pyramid(4)", budget, 16);
    for (std::size_t s = 0; s < result.blocks.size(); ++s) {
      const int first = result.find(0, 0)->steps[s].retained;
      const int last = result.find(1, 0)->steps[s].retained;
      if (result.blocks[s].end <= budget) {
        ASSERT_EQ(last, result.blocks[s].end);
      } else {
        // A layer cannot get back what it evicted when its share was smaller.
        ASSERT_LE(first + last, 2 * budget);
        ASSERT_GT(first, last);
      }
    }
    if (2 * budget <= made().options_.prompt_length) {
      EXPECT_EQ(result.find(0, 0)->steps.back().retained + result.find(1, 0)->steps.back().retained,
                2 * budget);
    }
  }
}

TEST_F(ReplayTest, DoesNotDependOnThreadsOrOrderOrHeldStates) {
  LayerStatesCache states(1U << 20U);
  for (const char* spec : {"h2o", "snapkv(8)", "tova(layer)", "keydiff(median)", "random",
                           "h2o+adakv", "snapkv(8)+adakv(mode=mix)+pyramid"}) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = 20, .threads = 1};
    const Replay one = run(request);
    request.threads = 3;
    request.first_layer = 1;
    request.states = &states;
    expect_same(one, run(request));
    request.layers = {1};
    const Replay second = run(request);
    ASSERT_EQ(second.heads.size(), 2U);
    EXPECT_EQ(second.heads[0].layer, 1);
    EXPECT_EQ(second.heads[0].evicted_at, one.find(1, 0)->evicted_at);
  }
}

TEST_F(ReplayTest, APolicyThatReadsNoQueriesDecidesWithoutThem) {
  int without = 0;
  for (const std::string& spec : catalogue_specs()) {
    ReplayRequest request{
        .policy = parse_policy(spec), .budget = 20, .scores_layer = 1, .scores_head = 1};
    LayerStatesCache states(std::size_t{1} << 24U);
    request.states = &states;
    request.metrics = false;
    const Replay bare = run(request);
    const bool reads = has_trait(request.policy, &PolicyTraits::reads_queries);
    EXPECT_EQ(
        states.get(made().trace(), 1, StateParts::keys_only(), test::unwatched)->queries.empty(),
        !reads)
        << spec;
    if (reads) continue;
    ++without;
    request.metrics = true;  // reads everything
    const Replay whole = run(request);
    ASSERT_EQ(bare.heads.size(), whole.heads.size());
    for (std::size_t i = 0; i < bare.heads.size(); ++i) {
      EXPECT_EQ(bare.heads[i].evicted_at, whole.heads[i].evicted_at) << spec;
      EXPECT_EQ(bare.heads[i].scores, whole.heads[i].scores) << spec;
      EXPECT_EQ(bare.heads[i].fates, whole.heads[i].fates) << spec;
    }
  }
  EXPECT_GE(without, 20);
}

TEST_F(ReplayTest, DoesNotDependOnStoredAttention) {
  test::SyntheticTraceOptions options = made().options_;
  options.attention = true;
  test::MadeTrace made_with(options);
  const Trace& with = made_with.trace();
  ASSERT_TRUE(test::stored_attention(with, 0, 0).has_value());
  ASSERT_FALSE(test::stored_attention(made().trace(), 0, 0).has_value());
  for (const char* spec : {"h2o", "tova", "snapkv(8)"}) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = 24};
    expect_same(replay(with, request, test::unwatched), run(request));
  }
}

TEST_F(ReplayTest, WithoutEvictionsH2oSumsToTheRowsSeen) {
  for (const int block : {1, 7, 96}) {
    ReplayRequest request{.policy = parse_policy("h2o"),
                          .budget = made().options_.tokens(),
                          .block = block,
                          .scores_layer = 1,
                          .scores_head = 1};
    const Replay result = run(request);
    const HeadReplay& head = *result.find(1, 1);
    for (std::size_t s = 0; s < head.scores.size(); ++s) {
      double sum = 0.0;
      for (const float score : head.scores[s]) sum += static_cast<double>(score);
      ASSERT_NEAR(sum, result.blocks[s].end, 1e-5 * result.blocks[s].end);
    }
    EXPECT_TRUE(result.find(0, 1)->scores.empty());
  }
}

TEST_F(ReplayTest, PairwiseKeyDiffIsTheMeanAnchorTimesItsLengthAndN) {
  ReplayRequest request;
  request.budget = made().options_.tokens();  // equal caches at every step
  request.scores_layer = 0;
  request.scores_head = 0;
  request.policy = parse_policy("keydiff(pairwise)");
  const Replay pairwise = run(request);
  request.policy = parse_policy("keydiff");
  const Replay mean = run(request);
  const Matrix keys = made().trace().key(0, 0);
  for (std::size_t s = 0; s < mean.blocks.size(); ++s) {
    const int n = mean.blocks[s].end;
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(keys.cols());
    for (int i = 0; i < n; ++i) sum += keys.row(i).cast<double>().normalized().transpose();
    for (int i = 0; i < n; ++i) {
      ASSERT_NEAR(pairwise.heads[0].scores[s][i],
                  sum.norm() * static_cast<double>(mean.heads[0].scores[s][i]), 2e-5 * sum.norm());
    }
  }
}

TEST_F(ReplayTest, ScoresAndFatesStandBesideTheTokens) {
  ReplayRequest request{.policy = parse_policy("keydiff+recent(4)"),
                        .budget = 10,
                        .scores_layer = 1,
                        .scores_head = 0};
  const Replay result = run(request);
  const HeadReplay& head = *result.find(1, 0);
  for (std::size_t s = 0; s < head.steps.size(); ++s) {
    const auto tokens = result.tokens_at(head, static_cast<int>(s));
    const auto kept = result.retained_at(head, static_cast<int>(s));
    ASSERT_EQ(head.scores[s].size(), tokens.size());
    ASSERT_EQ(head.fates[s].size(), tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool alive = std::find(kept.begin(), kept.end(), tokens[i]) != kept.end();
      EXPECT_EQ(alive, head.fates[s][i] != Fate::evicted);
      EXPECT_EQ(i + 4 >= tokens.size(), head.fates[s][i] == Fate::recent);
      if (head.fates[s][i] == Fate::by_score) {
        EXPECT_GE(head.scores[s][i], head.steps[s].threshold);
      }
      if (head.fates[s][i] == Fate::evicted) {
        EXPECT_LE(head.scores[s][i], head.steps[s].threshold);
      }
    }
  }
}

TEST_F(ReplayTest, JsonHasTheSetsAndExternalReadsThemBack) {
  const Replay original = run("snapkv(8)", 30, 24);
  const std::string text = test::json_of(original);
  const auto document = nlohmann::json::parse(text);
  EXPECT_EQ(document["policy"], "snapkv(8)");
  EXPECT_EQ(document["budget"], 30);
  EXPECT_EQ(document["block"], 24);
  ASSERT_EQ(document["heads"].size(), 4U);
  const auto& step = document["heads"][3]["steps"][2];
  EXPECT_EQ(document["heads"][3]["layer"], 1);
  EXPECT_EQ(document["heads"][3]["head"], 1);
  EXPECT_EQ(step["cache_size"], original.heads[3].steps[2].cache_size);
  EXPECT_EQ(step["retained"].get<std::vector<std::int32_t>>(),
            original.retained_at(original.heads[3], 2));
  EXPECT_TRUE(step["merged"].empty());
  EXPECT_EQ(step["metrics"]["query_heads"][1]["query_head"], 3);
  EXPECT_EQ(step["metrics"]["query_heads"][1]["bound_l1"],
            test::metrics_of(original.heads[3].steps[2])[1].bound_l1);

  write("kept.json", text);
  const Replay again = run("external(\"" + path("kept.json") + "\")", 5, 24);
  test::expect_same_sets(again, original, "all keys");
  ASSERT_EQ(again.notes.size(), 1U);

  // Another program may write the keys in another order, with more than is asked for.
  nlohmann::json reordered;
  for (const auto& head : document["heads"]) {
    nlohmann::json steps;
    for (const auto& one : head["steps"]) {
      steps.push_back(
          {{"retained", one["retained"]}, {"step", one["step"]}, {"a", {{"b", {1, 2}}}}});
    }
    reordered["heads"].push_back(
        {{"steps", steps}, {"layer", head["layer"]}, {"head", head["head"]}});
  }
  write("reordered.json", reordered.dump());
  EXPECT_EQ(run("external(\"" + path("reordered.json") + "\")", 5, 24).heads[2].evicted_at,
            original.heads[2].evicted_at);
}

/// A file of sets, in the form that its name says.
std::string sets_of(const Replay& replay, const std::string& name, KeptSteps which) {
  std::string text;
  const auto write = name.ends_with(".json") ? write_kept_sets_json : write_kept_sets_tensors;
  write(replay, "trace.h5", kept_steps(replay, which, 96), which == KeptSteps::prompt_end,
        [&](std::string_view part) { text += part; });
  return text;
}

TEST_F(ReplayTest, FilesOfSetsReadBackAsTheSameSets) {
  for (const char* policy : {"snapkv(8)", "h2o+shared", "keydiff+shared(votes)+pages(8)"}) {
    const Replay original = run(policy, 30, 24);
    for (const char* name : {"sets.json", "sets.safetensors"}) {
      SCOPED_TRACE(std::string(policy) + ", " + name);
      const std::string spec = "external(\"" + path(name) + "\")";
      write(name, sets_of(original, name, KeptSteps::all));
      test::expect_same_sets(run(spec, 5, 24), original, name);
      // Once: all is kept before the prompt's end, then the set, then all that comes.
      write(name, sets_of(original, name, KeptSteps::prompt_end));
      const Replay once = run(spec, 5, 24);
      for (std::size_t i = 0; i < original.heads.size(); ++i) {
        EXPECT_EQ(once.heads[i].steps[2].retained, 72);
        EXPECT_EQ(once.retained_at(once.heads[i], 3), original.retained_at(original.heads[i], 3));
        EXPECT_EQ(once.heads[i].steps.back().retained, original.heads[i].steps[3].retained + 5);
      }
    }
  }
  // One set stands for all heads of a layer, where they agree.
  const auto shared =
      nlohmann::json::parse(sets_of(run("h2o+shared", 30, 24), "sets.json", KeptSteps::all));
  ASSERT_EQ(shared["heads"].size(), 2U);
  EXPECT_EQ(shared["heads"][1]["head"], "all");
  EXPECT_EQ(shared["heads"][1]["steps"][3]["tokens"], 96);
  EXPECT_THROW(sets_of(run("h2o+tome", 30, 24), "sets.json", KeptSteps::all), UsageError);
}

TEST_F(ReplayTest, WhatIsWrongWithTensorsOfSetsIsNamed) {
  const std::string spec = "external(\"" + path("bad.safetensors") + "\")";
  const auto problem = [&](const std::string& bytes) -> std::string {
    write("bad.safetensors", bytes);
    return test::error_of<FileError>([&] { run(spec, 5, 32); }, "accepted");
  };
  const std::string good =
      sets_of(run("h2o+shared", 30, 32), "sets.safetensors", KeptSteps::prompt_end);
  EXPECT_EQ(problem(good), "accepted");
  for (std::size_t size = 0; size < good.size(); size += 7) {
    EXPECT_NE(problem(good.substr(0, size)), "accepted") << size;
  }
  const auto changed = [&](std::string from, const std::string& to) {
    std::string bytes = good;
    const std::size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return bytes.replace(at, from.size(), to);
  };
  EXPECT_THAT(problem(changed("\"steps\"", "\"stepz\"")), HasSubstr("has no tensor steps"));
  EXPECT_THAT(problem(changed("kvloupe_sets\":\"1", "kvloupe_sets\":\"2")),
              HasSubstr("a newer kvloupe"));
  EXPECT_THAT(problem(changed("layers.1.all\"", "layers.7.all\"")),
              HasSubstr("no set for layer 1"));
  EXPECT_THAT(problem(changed("\"I32\"", "\"F32\"")), HasSubstr("I32 with one dimension"));
  std::string bytes = good;
  bytes.replace(bytes.size() - 4, 4, std::string("\xff\xff\xff\x7f", 4));  // the last token
  EXPECT_THAT(problem(bytes), HasSubstr("is not in the cache"));
  bytes.back() = '\xff';
  EXPECT_THAT(problem(bytes), HasSubstr("has the number -1"));
  // The last step's end: the tokens begin after all the numbers of 8 bytes.
  const auto tokens = static_cast<std::size_t>(2 * 30 * 4);
  bytes = good;
  bytes[bytes.size() - tokens - 8] = 29;
  EXPECT_THAT(problem(bytes), HasSubstr("must have a number for each of the 1 steps"));
}

TEST_F(ReplayTest, DoubtsStandInTheJson) {
  const auto notes = [&](const std::string& spec) {
    return nlohmann::json::parse(test::json_of(run(spec, 20)))["notes"]
        .get<std::vector<std::string>>();
  };
  EXPECT_THAT(notes("keydiff+adakv+critical"),
              testing::IsSupersetOf({HasSubstr("adakv compares the scores of different heads"),
                                     HasSubstr("all are first shifted by their minimum"),
                                     HasSubstr("critical is made for attention")}));
  EXPECT_THAT(notes("keynorm+caote"), Contains(HasSubstr("caote is exact for attention")));
  EXPECT_THAT(notes("h2o+kvmerger"), Contains(HasSubstr("value_scale=paper multiplies")));
  EXPECT_THAT(notes("oracle"), Contains(HasSubstr("uses the future")));
  EXPECT_THAT(notes("h2o"), IsEmpty());
}

TEST_F(ReplayTest, JsonCanBeCutToHeadsAndTheLastStep) {
  const auto document = nlohmann::json::parse(
      test::json_of(run("keydiff", 30), {.heads = {1}, .last_step_only = true}));
  ASSERT_EQ(document["heads"].size(), 2U);
  EXPECT_EQ(document["heads"][0]["head"], 1);
  ASSERT_EQ(document["heads"][0]["steps"].size(), 1U);
  EXPECT_EQ(document["heads"][0]["steps"][0]["step"], 3 + 5 - 1);
}

TEST_F(ReplayTest, WhatExternalCannotUseIsNamed) {
  const auto problem = [&](const std::string& name) -> std::string {
    ReplayRequest request{
        .policy = parse_policy("external(\"" + path(name) + "\")"), .budget = 5, .layers = {0}};
    return test::error_of<FileError>([&] { run(request); }, "accepted");
  };
  EXPECT_THAT(problem("none.json"), HasSubstr("none.json: cannot be opened"));
  const std::string good = test::json_of(run("keydiff", 20));
  const auto one_head = [](const std::string& steps) {
    return "{\"heads\": [{\"layer\": 0, \"head\": 0, \"steps\": [" + steps + "]}]}";
  };
  const std::string zero = R"({"step": 0, "retained": [1]})";
  const std::string newer = "open it with a newer kvloupe";
  for (const auto& [content, what] : std::vector<std::pair<std::string, std::string>>{
           {R"({"kvloupe_sets": 2, "heads": []})", newer},
           {R"({"kvloupe_sets": "2", "heads": []})", newer},
           {R"({"kvloupe_sets": 1.5, "heads": []})", newer},
           {"", "empty"},
           {"not json", "not valid JSON"},
           {good.substr(0, good.size() / 2), "not valid JSON"},
           {R"({"a": [1, 2, {"heads": 3}]})", "no \"heads\""},
           {std::string(100000, '['), "is nested too deeply"},
           {test::json_of(run("keydiff", 20, 48)), "is not in the cache"},
           {one_head(R"({"step": 0, "retained": [0, 1]})"), "has no set for layer"},
           {one_head(R"({"step": 0, "retained": [1, 0]})"), "ascend"},
           {one_head(R"({"step": 0, "retained": []})"), "nothing is retained"},
           {one_head(R"({"step": 0, "retained": [99999999999999999999]})"), "token"},
           {one_head(R"({"step": 4294967296, "retained": [1]})"), "step is out of range"},
           {one_head(zero + ", " + zero), "two sets"}}) {
    write("sets.json", content);
    EXPECT_THAT(problem("sets.json"), HasSubstr(what)) << content.substr(0, 80);
  }
}

TEST_F(ReplayTest, StopsWhenAsked) {
  ReplayRequest request{
      .policy = parse_policy("h2o"), .budget = 20, .first_layer = 1, .threads = 1};
  Progress progress;
  int layers = 0;
  const auto on_layer = [&](const std::vector<HeadReplay>& heads) {
    EXPECT_EQ(heads.front().layer, 1);  // the layer on screen comes first
    ++layers;
    progress.cancel();
  };
  EXPECT_THROW(replay(made().trace(), request, progress, on_layer), Cancelled);
  EXPECT_EQ(layers, 1);
  Progress complete;
  replay(made().trace(), request, complete);
  EXPECT_EQ(complete.fraction(), 1.0);
}

TEST_F(ReplayTest, RefusesWhatTheTraceLacks) {
  ReplayRequest request{.policy = parse_policy("keydiff"), .budget = 5, .layers = {2}};
  EXPECT_THROW(run(request), UsageError);
  request.layers = {};
  request.scores_layer = 0;
  request.scores_head = 2;
  EXPECT_THROW(run(request), UsageError);
  EXPECT_THROW(run("keydiff", 0), UsageError);
  EXPECT_THROW(run("keydiff", 5, -1), UsageError);
}

TEST_F(ReplayTest, WithoutOutputWeightsThePerturbationIsUnknown) {
  test::SyntheticTraceOptions options = made().options_;
  options.output_weight = options.value_out_norms = false;
  const Replay result = test::MadeTrace(options).run("keydiff", 20);
  const QueryHeadMetrics metrics = test::metrics_of(result.heads[0].steps.back())[0];
  EXPECT_TRUE(std::isnan(metrics.perturbation_l1) && std::isnan(metrics.bound_l1));
  EXPECT_GT(metrics.head_error_l2, 0.0);
  EXPECT_TRUE(nlohmann::json::parse(test::json_of(
      result))["heads"][0]["steps"][0]["metrics"]["query_heads"][0]["bound_l1"]
                  .is_null());
  EXPECT_EQ(result.heads[0].evicted_at, run("keydiff", 20).heads[0].evicted_at);
}

}  // namespace
}  // namespace kvloupe

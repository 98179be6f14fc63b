// From a wrong answer to the heads that lost the needle, on the demo model: against runs of the
// product's own capture, and against what the search itself must hold.

#include "analysis/evaluation/rescue_results.h"
#include "analysis/replay/follow.h"
#include "analysis/trace/loops.h"
#include "capture/eval/rescue.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/results_file.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kAssets = std::filesystem::path(KVLOUPE_SOURCE_DIR) / "assets";

struct RescueTest : testing::Test {
  RescueRequest request(const std::string& policy, const std::string& name) const {
    RescueRequest wanted;
    wanted.model = kAssets / "demo-model";
    wanted.prompt = kAssets / "prompts" / "needle.txt";
    wanted.policy = parse_policy(policy);
    wanted.budget = parse_budget("10%");
    wanted.tokens = "needle";
    wanted.answer_tokens = 2;
    wanted.output = folder_ / name;
    wanted.block = 64;
    wanted.dtype = "f32";
    return wanted;
  }
  Json run(const RescueRequest& wanted) {
    runs_ = 0;
    RescueReport report;
    report.run = [&](const RescueRun& made) {
      ++runs_;
      EXPECT_LE(made.number, made.most);
      EXPECT_GE(made.seconds_left, 0.0);
    };
    rescue(wanted, unwatched, report);
    return results_in(wanted.output);
  }
  std::string problem(const RescueRequest& wanted) {
    return error_of<std::runtime_error>([&] { run(wanted); });
  }
  /// The text that the model generates in a capture with that policy in its cache.
  std::string says(const std::string& policy, const std::string& budget, int block = 64) const {
    CaptureRequest wanted{.model = kAssets / "demo-model",
                          .target = folder_ / "closed.h5",
                          .prompt = kAssets / "prompts" / "needle.txt",
                          .block = block,
                          .generate = 2,
                          .attention = AttentionStorage::none,
                          .dtype = "f32",
                          .storage = Storage::float32,
                          .policy = parse_policy(policy),
                          .budget = parse_budget(budget)};
    return capture(wanted).generated_text;
  }

  /// The prompt and what the full cache says.
  std::filesystem::path full_trace() const {
    CaptureRequest wanted{.model = kAssets / "demo-model",
                          .target = folder_ / "full.h5",
                          .prompt = kAssets / "prompts" / "needle.txt",
                          .block = 64,
                          .generate = 2,
                          .attention = AttentionStorage::none,
                          .dtype = "f32",
                          .storage = Storage::float32};
    capture(wanted);
    return wanted.target;
  }

  const TemporaryFolder folder_;
  int runs_ = 0;
};

std::string heads_of(const Json& list, int without) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (static_cast<int>(i) == without) continue;
    text += (text.empty() ? "" : ";") + std::to_string(list[i][0].get<int>()) + "." +
            std::to_string(list[i][1].get<int>());
  }
  return text;
}

/// No head of the set can be left out: the run without it is in the file, and goes the other way.
void expect_minimal(const Json& results, const char* side, const std::string& before,
                    const std::string& after) {
  const Json& smallest = results[side]["smallest"];
  ASSERT_FALSE(smallest.is_null()) << side;
  const Json& heads = smallest["heads"];
  const bool wanted = smallest["right"].get<bool>();
  const auto run = [&](int without) {
    return results["runs"].at(before + heads_of(heads, without) + after)["right"].get<bool>();
  };
  EXPECT_EQ(run(-1), wanted) << side;
  if (heads.size() == 1) return;
  for (int i = 0; i < static_cast<int>(heads.size()); ++i) EXPECT_EQ(run(i), !wanted) << side;
}

TEST_F(RescueTest, LeaveOneOutRunsEachHeadAloneWithoutTheTokens) {
  RescueRequest wanted = request("snapkv", "one.json");
  wanted.prompt.reset();
  wanted.trace = full_trace();
  wanted.leave_one_out = true;
  const Json results = run(wanted);
  EXPECT_EQ(runs_, 4 + 16);
  EXPECT_TRUE(results["keep"]["heads"].empty());
  EXPECT_TRUE(results["drop"]["layers"].empty());
  EXPECT_TRUE(results["drop"]["smallest"].is_null());
  const Json& heads = results["drop"]["heads"];
  ASSERT_EQ(heads.size(), 16U);
  const double full = results["full"]["logprob"].get<double>();
  for (const Json& head : heads) {
    EXPECT_NEAR(head["gain"].get<double>(), head["logprob"].get<double>() - full, 1e-9);
  }
  // The same head by a run that shares no block with another.
  wanted.output = folder_ / "alone.json";
  wanted.most_shared = 0;
  const Json alone = run(wanted);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    EXPECT_NEAR(alone["drop"]["heads"][i]["logprob"].get<double>(),
                heads[i]["logprob"].get<double>(), 1e-4);
  }
  // What may foretell it: the trace's attention, and the rank by the policy's score.
  const Json& predicted = results["predicted"]["heads"];
  ASSERT_EQ(predicted.size(), 16U);
  for (const Json& head : predicted) {
    EXPECT_GE(head["attention"].get<double>(), head["loss"].get<double>());
    EXPECT_GE(head["score_rank"].get<double>(), 0.0);
    EXPECT_LE(head["score_rank"].get<double>(), 1.0);
    EXPECT_TRUE(head["drop_blame"].is_number());
  }
  // Of heads that lost all of the tokens: the rank at the loss, as a replay that follows them has
  // it.
  const Trace trace(*wanted.trace);
  ReplayRequest replayed{.policy = wanted.policy,
                         .budget = wanted.budget.resolve(trace.run().prompt_length),
                         .block = wanted.block,
                         .metrics = false,
                         .followed = named_tokens(trace, "needle")};
  const Replay followed = replay(trace, replayed, unwatched);
  int lost = 0;
  for (const Json& head : predicted) {
    const HeadReplay& own = *followed.find(head["layer"].get<int>(), head["head"].get<int>());
    if (own.losses.size() < replayed.followed.size()) continue;
    double sum = 0.0;
    for (const TokenLoss& loss : own.losses)
      sum += static_cast<double>(loss.entries - loss.rank) / (loss.entries - 1);
    EXPECT_NEAR(head["score_rank"].get<double>(), sum / static_cast<double>(own.losses.size()),
                1e-9);
    ++lost;
  }
  EXPECT_GT(lost, 0);
  // A search goes on with these runs, and finds the same effects.
  wanted.output = folder_ / "one.json";
  wanted.leave_one_out = false;
  wanted.most_runs = 0;
  const Json search = run(wanted);
  EXPECT_EQ(search["drop"]["heads"], heads);
}

TEST_F(RescueTest, FindsHeadsThatAreEnoughAndNoneTooMany) {
  const Json results = run(request("snapkv", "r.json"));
  EXPECT_TRUE(results["full"]["right"].get<bool>());
  EXPECT_FALSE(results["policy"]["right"].get<bool>());
  EXPECT_TRUE(results["keep"]["all"]["right"].get<bool>());
  EXPECT_FALSE(results["drop"]["all"]["right"].get<bool>());
  EXPECT_EQ(results["keep"]["heads"].size(), 16U);
  EXPECT_EQ(results["keep"]["layers"].size(), 4U);
  EXPECT_EQ(results["predicted"]["heads"].size(), 16U);
  const double rho = results["predicted"]["rank_correlation"].get<double>();
  EXPECT_GE(rho, -1.0);
  EXPECT_LE(rho, 1.0);
  std::string tokens;  // as the specs name them
  for (const auto& [spec, one] : results["runs"].items()) {
    if (spec.starts_with("snapkv+keep(\"")) {
      tokens = spec.substr(13, spec.find('"', 13) - 13);
      break;
    }
  }
  expect_minimal(results, "keep", "snapkv+keep(\"" + tokens + "\",heads=\"", "\")");
  expect_minimal(results, "drop", "full+drop(\"" + tokens + "\",heads=\"", "\")");

  // The same by the product's own capture, which shares no block with another run.
  const std::string expected = results["expected"]["text"].get<std::string>();
  EXPECT_EQ(says("snapkv", "10%"), results["policy"]["says"].get<std::string>());
  EXPECT_EQ(says("snapkv+keep(\"" + tokens + "\")", "10%"), expected);
  EXPECT_NE(says("full+drop(\"" + tokens + "\")", "100%"), expected);
  const std::string enough = heads_of(results["keep"]["smallest"]["heads"], -1);
  EXPECT_EQ(says("snapkv+keep(\"" + tokens + "\",heads=\"" + enough + "\")", "10%"), expected);

  // A stopped search goes on where it was; runs that share nothing give the same numbers.
  const int all = runs_;
  EXPECT_GE(all, 44) << "every layer and head alone";
  EXPECT_EQ(run(request("snapkv", "r.json")), results);
  EXPECT_EQ(runs_, 0);
  long files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 2) << "r.json and closed.h5: the trace for the replay is gone";
  RescueRequest alone = request("snapkv", "alone.json");
  alone.most_shared = 0;
  const Json again = run(alone);
  for (const auto& [spec, one] : results["runs"].items()) {
    ASSERT_TRUE(again["runs"].contains(spec)) << spec;
    EXPECT_EQ(again["runs"][spec]["right"], one["right"]) << spec;
    EXPECT_NEAR(again["runs"][spec]["logprob"].get<double>(), one["logprob"].get<double>(), 1e-3)
        << spec;
  }
}

TEST_F(RescueTest, ASearchThatCanFindNothingStopsWithTheNamedHeads) {
  RescueRequest wanted = request("snapkv", "s.json");
  wanted.tokens = "5-8";  // the answer does not depend on them
  const Json results = run(wanted);
  EXPECT_FALSE(results["keep"]["all"]["right"].get<bool>());
  EXPECT_TRUE(results.value("stopped", false));
  EXPECT_TRUE(results["predicted"]["rank_correlation"].is_null());
  EXPECT_THAT(
      results["predicted"]["over"].get<std::string>(),
      HasSubstr("the 2 tokens of the answer “" + results["expected"]["text"].get<std::string>()));
  std::set<std::pair<int, int>> named, kept, dropped;
  for (const Json& head : results["predicted"]["heads"]) {
    if (named.size() < 3 && head["blame"].get<double>() > 0.0)
      named.emplace(head["layer"].get<int>(), head["head"].get<int>());
  }
  EXPECT_FALSE(named.empty());
  for (const Json& head : results["keep"]["heads"])
    kept.emplace(head["layer"].get<int>(), head["head"].get<int>());
  for (const Json& head : results["drop"]["heads"])
    dropped.emplace(head["layer"].get<int>(), head["head"].get<int>());
  EXPECT_EQ(kept, named);
  EXPECT_EQ(dropped, named);
  EXPECT_EQ(runs_, 4 + 2 * static_cast<int>(named.size()));
  EXPECT_TRUE(rescue_results(nlohmann::json::parse(results.dump())).stopped);

  wanted.all = true;
  const Json all = run(wanted);
  EXPECT_FALSE(all.contains("stopped"));
  EXPECT_EQ(all["keep"]["heads"].size(), 16U);
  EXPECT_EQ(all["keep"]["all"], results["keep"]["all"]);
  // Nor is there anything to find where the policy's answer is right.
  wanted = request("snapkv", "right.json");
  wanted.budget = parse_budget("100%");
  EXPECT_TRUE(run(wanted)["policy"]["right"].get<bool>());
  EXPECT_EQ(runs_, 4);
}

TEST_F(RescueTest, WhatItWillTakeIsForeseenAndNothingIsRun) {
  RescueRequest wanted = request("snapkv", "r.json");
  const RunsForecast all = forecast_rescue(wanted, unwatched, {});
  EXPECT_FALSE(std::filesystem::exists(wanted.output));
  wanted.most_runs = 40;
  const RunsForecast before = forecast_rescue(wanted, unwatched, {});
  EXPECT_EQ(before.missing, 40);
  EXPECT_GT(all.missing, 42) << "both sides of 4 layers and 16 heads, and the search";
  EXPECT_GT(all.bytes, before.bytes);
  EXPECT_EQ(before.dtype, "f32");
  run(wanted);
  EXPECT_GE(before.missing, runs_);
  const auto bytes = static_cast<double>(std::filesystem::file_size(wanted.output));
  EXPECT_NEAR(static_cast<double>(before.bytes), bytes, 0.5 * bytes);
  const RunsForecast after = forecast_rescue(wanted, unwatched, {});
  EXPECT_EQ(after.known, runs_);
  EXPECT_EQ(after.missing, 40 - runs_);
}

TEST_F(RescueTest, WithFewerRunsTheSetComesFirstAndTheRestIsLeftOut) {
  const Json all = run(request("snapkv", "all.json"));
  constexpr int kRuns = 26;
  RescueRequest few = request("snapkv", "few.json");
  few.most_runs = kRuns;
  const Json results = run(few);
  EXPECT_LE(runs_, kRuns);
  EXPECT_EQ(results["runs"].size(), static_cast<std::size_t>(runs_));
  EXPECT_LT(results["keep"]["heads"].size(), 16U);
  EXPECT_EQ(results["shape"], (Json{{"layers", 4}, {"heads", 4}}));
  EXPECT_TRUE(results["keep"]["smallest"]["minimal"].get<bool>());
  EXPECT_TRUE(results["keep"]["smallest"]["right"].get<bool>());
  // The runs that were made equal those of the whole search.
  for (const char* side : {"keep", "drop"}) {
    for (const Json& head : results[side]["heads"]) {
      const std::size_t at = head["layer"].get<std::size_t>() * 4 + head["head"].get<std::size_t>();
      EXPECT_EQ(head, all[side]["heads"][at]) << side;
    }
  }
  EXPECT_EQ(results["predicted"]["heads"], all["predicted"]["heads"]);
  const RescueResults read = rescue_results(nlohmann::json::parse(results.dump()));
  EXPECT_EQ(read.layers(), 4);
  EXPECT_EQ(read.heads(), 4);
  EXPECT_EQ(read.keep.known_heads(), static_cast<int>(results["keep"]["heads"].size()));
  EXPECT_EQ(read.set_within(), results["predicted"]["set_within"].get<int>());

  // More runs go on from there, and with all of them everything is known.
  few.most_runs = 0;
  EXPECT_EQ(run(few)["keep"]["heads"], all["keep"]["heads"]);
  EXPECT_LT(runs_, static_cast<int>(all["runs"].size()));
  few.output = folder_ / "none.json";
  few.most_runs = 4;  // both bases, and all heads at once
  const Json none = run(few);
  EXPECT_EQ(runs_, 4);
  EXPECT_FALSE(none["keep"]["smallest"]["minimal"].get<bool>());
  EXPECT_EQ(none["keep"]["smallest"]["heads"].size(), 16U);
  EXPECT_TRUE(none["keep"]["heads"].empty());
  EXPECT_FALSE(rescue_results(nlohmann::json::parse(none.dump())).keep.minimal);
}

TEST_F(RescueTest, APolicyThatReadsTheContextTwiceDoesSoBeforeItEvicts) {
  constexpr int kBlock = 600;  // all of the prompt
  RescueRequest wanted = request("kvzip", "r.json");
  wanted.budget = parse_budget("4%");
  wanted.block = kBlock;
  const Json results = run(wanted);
  EXPECT_EQ(results["settings"]["probe"], "repeat");
  EXPECT_NE(results["policy"]["logprob"], results["full"]["logprob"]);
  EXPECT_EQ(results["policy"]["says"].get<std::string>(), says("kvzip", "4%", kBlock));
  EXPECT_TRUE(results["drop"]["all"].contains("gain"));
  EXPECT_EQ(results["predicted"]["heads"].size(), 16U);
  // As many runs as any policy has, each with the scores of the one reading.
  for (const auto& [spec, one] : results["runs"].items()) {
    if (!spec.starts_with("kvzip+keep")) continue;
    EXPECT_EQ(says(spec, "4%", kBlock) == results["expected"]["text"].get<std::string>(),
              one["right"].get<bool>())
        << spec;
    break;
  }

  // A trace brings its own reading.
  CaptureRequest full{.model = kAssets / "demo-model",
                      .prompt = kAssets / "prompts" / "needle.txt"};
  full.target = folder_ / "full.h5";
  full.block = 64;
  full.dtype = "f32";
  full.attention = AttentionStorage::none;
  capture(full);
  RescueRequest traced = wanted;
  traced.prompt.reset();
  traced.trace = folder_ / "full.h5";
  traced.output = folder_ / "t.json";
  EXPECT_THAT(problem(traced), HasSubstr("needs a probe"));
  full.probe = ProbeKind::reread;
  capture(full);
  const Json read_again = run(traced);
  EXPECT_EQ(read_again["settings"]["probe"], "reread");
  wanted.probe = ProbeKind::reread;
  wanted.output = folder_ / "again.json";
  const Json same = run(wanted);
  EXPECT_EQ(same["policy"], read_again["policy"]);
  EXPECT_NE(same["policy"]["logprob"], results["policy"]["logprob"]);

  wanted.block = 64;
  EXPECT_THAT(problem(wanted), HasSubstr("as one block, with --block"));
}

TEST_F(RescueTest, ARunIsRightIfItsTextHasNoLoop) {
  RescueRequest wanted = request("sink", "loops.json");
  wanted.no_loop = true;
  wanted.answer_tokens = 60;
  wanted.most_runs = 8;
  const Json results = run(wanted);
  EXPECT_TRUE(results["full"]["right"].get<bool>());
  EXPECT_FALSE(results["policy"]["right"].get<bool>());
  // The same by captures of the runs.
  int checked = 0;
  for (const auto& [spec, one] : results["runs"].items()) {
    SCOPED_TRACE(spec);
    CaptureRequest alone{.model = kAssets / "demo-model",
                         .prompt = kAssets / "prompts" / "needle.txt"};
    alone.target = folder_ / "alone.h5";
    alone.block = 64;
    alone.generate = 60;
    alone.dtype = "f32";
    alone.storage = Storage::float32;
    alone.attention = AttentionStorage::none;
    if (spec != kFullCache) {
      alone.policy = parse_policy(spec);
      alone.budget = parse_budget(spec.starts_with(kFullCache) ? "100%" : "10%");
    }
    capture(alone);
    const Trace trace(alone.target);
    EXPECT_EQ(one["right"].get<bool>(),
              find_loops(trace.tokens().ids, trace.run().prompt_length).spans.empty());
    if (++checked == 5) break;
  }
  EXPECT_EQ(checked, 5);
  RescueRequest few = wanted;
  few.answer_tokens = 15;
  EXPECT_THAT(problem(few), HasSubstr("a loop takes 16 tokens or more"));
  few = wanted;
  few.answer_tokens = 59;
  EXPECT_THAT(problem(few), HasSubstr("other settings"));
}

TEST_F(RescueTest, WhatCannotBeRescuedIsSaidInOneLine) {
  RescueRequest wrong = request("snapkv", "a.json");
  wrong.expect = " 99";
  EXPECT_THAT(problem(wrong), HasSubstr("there is nothing to rescue"));
  wrong = request("snapkv", "b.json");
  wrong.tokens = "answer";
  EXPECT_THAT(problem(wrong), HasSubstr("segment"));
  wrong.tokens = "5000";
  EXPECT_THAT(problem(wrong), HasSubstr("token 5000"));
  wrong = request("snapkv", "b.json");
  for (const char* budget : {"5", "1%bytes"}) {
    wrong.budget = parse_budget(budget);
    EXPECT_THAT(problem(wrong), HasSubstr("do not fit the budget"));
  }
  EXPECT_THAT(problem(request("snapkv+keep(\"1\")", "b.json")), HasSubstr("has keep already"));
  EXPECT_THAT(problem(request("oracle", "b.json")), HasSubstr("oracle"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.json"));
  std::ofstream(folder_ / "c.json") << "{}";
  EXPECT_THAT(problem(request("snapkv", "c.json")), HasSubstr("not a results file"));
  for (const char* text :
       {"", "[1]", "{\"format\": 5}", "{\"format\": \"kvloupe-rescue\"}",
        "{\"format\": \"kvloupe-rescue\", \"format_version\": \"1\", \"runs\": {}}",
        "{\"format\": \"kvloupe-rescue\", \"format_version\": 1, \"runs\": 3}"}) {
    std::ofstream(folder_ / "c.json") << text;
    EXPECT_THAT(problem(request("snapkv", "c.json")), HasSubstr("not a results file")) << text;
  }
  std::ofstream(folder_ / "c.json")
      << "{\"format\": \"kvloupe-rescue\", \"format_version\": 2, \"runs\": {}}";
  EXPECT_THAT(problem(request("snapkv", "c.json")), HasSubstr("newer version"));
  // Other settings than those of the file.
  EXPECT_THAT(problem(request("tova", "a.json")), HasSubstr("other settings"));
}

}  // namespace
}  // namespace kvloupe::test

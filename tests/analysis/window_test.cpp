// Replays of models with a sliding window: what leaves on the model's account, and what that means
// for policies, measures, explanations and files. Sets and measures beside their naive twins:
// replay_naive_test, policy_combinations_test.

#include "analysis/replay/compression.h"
#include "analysis/replay/drift.h"
#include "analysis/replay/explain.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure/output_error.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/edited_trace.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr int kTokens = 66;

/// Every score of the catalogue that needs no file, plain and with each modifier.
std::vector<std::string> catalogue_specs() {
  return test::catalogue_specs({{"pages", "pages(1)"}});
}

struct WindowTest : testing::Test {
  static test::SyntheticTraceOptions options(int window) {
    return {.head_dim = 8,
            .prompt_length = 60,
            .generated = kTokens - 60,
            .block = 16,
            .sliding_window = window};
  }
  const Trace& trace(int window) {
    return made_.try_emplace(window, options(window)).first->second.trace();
  }
  Replay run(const Trace& trace, const std::string& spec, int budget, int block = 0,
             std::vector<std::string> measures = {}) {
    ReplayRequest request{.policy = parse_policy(spec),
                          .budget = budget,
                          .block = block,
                          .measures = std::move(measures),
                          .scores_layer = 1,
                          .scores_head = 0};
    return replay(trace, request, test::unwatched);
  }
  test::TemporaryFolder folder_;
  std::map<int, test::MadeTrace> made_;
};

TEST_F(WindowTest, OneThatHidesNothingChangesNoBit) {
  for (const std::string& spec : catalogue_specs()) {
    for (const int budget : {7, 200}) {
      const std::string plain = test::json_of(run(trace(0), spec, budget, 0, {"all"}));
      for (const int window : budget == 7 ? std::vector{kTokens, 4096} : std::vector{kTokens + 1}) {
        ASSERT_EQ(test::json_of(run(trace(window), spec, budget, 0, {"all"})), plain)
            << spec << ", window " << window;
      }
    }
  }
}

TEST_F(WindowTest, ABudgetThatHoldsWhatIsLeftOfItLosesNothing) {
  for (const int window : {1, 2, 9, 16, 23, kTokens - 1}) {
    const int budget = std::max(window - 1, 1);
    for (const std::string& spec : catalogue_specs()) {
      const Replay result = run(trace(window), spec, budget);
      EXPECT_EQ(result.heads.front().reach, Reach(window));
      for (const HeadReplay& head : result.heads) {
        for (std::size_t s = 0; s < head.steps.size(); ++s) {
          const StepRecord& record = head.steps[s];
          const int step = static_cast<int>(s);
          ASSERT_EQ(record.retained, record.cache_size) << spec;
          ASSERT_EQ(record.cache_size, std::min(result.blocks[s].end, window - 1)) << spec;
          ASSERT_EQ(record.seen, record.cache_size);
          ASSERT_TRUE(record.merges.empty() && record.gifts.empty());
          ASSERT_EQ(result.tokens_at(head, step), result.retained_at(head, step));
          // The step's last query has all that it sees.
          ASSERT_EQ(static_cast<int>(result.seen_at(head, step).size()),
                    std::min(result.blocks[s].end, window));
          for (const QueryHeadMetrics& metrics : test::metrics_of(record)) {
            ASSERT_NEAR(metrics.retained_mass, 1.0, 1e-12) << spec;
            ASSERT_EQ(metrics.perturbation_l1, 0.0) << spec;
            ASSERT_EQ(metrics.head_error_l2, 0.0) << spec;
          }
        }
      }
    }
  }
}

TEST_F(WindowTest, NothingOfItIsChargedToThePolicy) {
  const Replay result = run(trace(20), "h2o", 8);
  EXPECT_THAT(result.notes, Contains(StartsWith("window of 20 tokens: entries that")));
  for (const HeadReplay& head : result.heads) {
    int evicted = 0, unseen = 0;
    for (int token = 0; token < kTokens; ++token) {
      const int left = head.evicted_at[token];
      if (left < 0) continue;
      const auto present = result.tokens_at(head, left);
      const bool candidate = std::binary_search(present.begin(), present.end(), token);
      EXPECT_EQ(result.left_unseen(head, token), !candidate);
      ++(candidate ? evicted : unseen);
    }
    int charged = 0;
    for (const StepRecord& record : head.steps) charged += record.cache_size - record.retained;
    EXPECT_EQ(charged, evicted);
    EXPECT_GT(unseen, 5);
  }
}

TEST_F(WindowTest, NotesSayWhatBecomesOfBudgetAndSinks) {
  EXPECT_THAT(run(trace(20), "keydiff", 19).notes,
              Contains(HasSubstr("at most 19 entries are then left")));
  EXPECT_THAT(run(trace(20), "keydiff", 18).notes, Not(Contains(HasSubstr("at most 19"))));
  EXPECT_THAT(run(trace(20), "h2o+sinks(3)", 8).notes,
              Contains(HasSubstr("protects the first 3 tokens only while")));
  EXPECT_THAT(run(trace(20), "sink(2)", 8).notes, Contains(HasSubstr("protects the first 2")));
  for (const int window : {0, kTokens}) {
    EXPECT_THAT(run(trace(window), "sink(2)", 8).notes, IsEmpty());
  }
  // A sink that has left frees its place.
  const Replay result = run(trace(20), "sink(2)", 8);
  const HeadReplay& head = result.heads.front();
  EXPECT_EQ(result.retained_at(head, 0).front(), 0);
  EXPECT_EQ(result.retained_at(head, 1),
            (std::vector<std::int32_t>{24, 25, 26, 27, 28, 29, 30, 31}));
}

TEST_F(WindowTest, ExternalReadsBackWhatAReplayWrote) {
  for (const int window : {1, 9, 23}) {
    const Replay original = run(trace(window), "snapkv(4)", 6);
    const auto document = nlohmann::json::parse(test::json_of(original));
    EXPECT_EQ(document["window"], window);
    const std::string path = (folder_ / "kept.json").string();
    std::ofstream(path) << test::json_of(original);
    test::expect_same_sets(run(trace(window), "external(\"" + path + "\")", 6), original, path);
  }
  EXPECT_FALSE(nlohmann::json::parse(test::json_of(run(trace(0), "tova", 6))).contains("window"));
  // Sets of a model without a window hold what has left by then.
  const std::string path = (folder_ / "all.json").string();
  std::ofstream(path) << test::json_of(run(trace(0), "full", 6));
  EXPECT_THAT(test::error_of<FileError>([&] { run(trace(23), "external(\"" + path + "\")", 6); }),
              HasSubstr("has left the model's sliding window"));
}

TEST_F(WindowTest, ExplanationsTellWhatLeftUnseen) {
  const Replay result = run(trace(20), "h2o", 8);
  const HeadReplay& head = *result.find(1, 0);
  int unseen = 0;
  for (int token = 0; token < kTokens; ++token) {
    const TokenExplanation life = explain(result, head, token);
    ASSERT_EQ(life.left, head.evicted_at[token]);
    ASSERT_FALSE(life.steps.empty());
    for (const StepReason& reason : life.steps) {
      const bool left = reason.fate == Fate::beyond_window;
      EXPECT_EQ(left, reason.step == life.left && result.left_unseen(head, token));
      const std::string text = reason_text(life, reason);
      EXPECT_EQ(text.find("sliding window") != std::string::npos, left) << text;
      if (left) {
        ++unseen;
        EXPECT_TRUE(std::isnan(reason.score) && reason.rank == 0);
      }
    }
  }
  EXPECT_GT(unseen, 5);
  // One token: all leave at once, with none to rank.
  const Replay narrow = run(trace(1), "h2o", 8);
  const TokenExplanation life = explain(narrow, *narrow.find(1, 0), 3);
  EXPECT_EQ(life.left, life.entered);
  EXPECT_EQ(life.steps.back().fate, Fate::beyond_window);
}

TEST_F(WindowTest, SharesAreOfWhatLaterQueriesSee) {
  const Replay lossless = run(trace(20), "h2o", 30);
  const Replay cut = run(trace(20), "h2o", 8);
  const Measure& share = require_measure("retained_share");
  const int last = static_cast<int>(cut.blocks.size()) - 1;
  EXPECT_EQ(measure_of(share, lossless.heads.front()), 1.0);
  EXPECT_NEAR(measure_of(share, cut.heads.front()), 8.0 / 19.0, 1e-12);
  EXPECT_NEAR(layer_compression(cut, last).front().mean, 8.0 / 19.0, 1e-12);
  EXPECT_EQ(layer_compression(run(trace(1), "h2o", 8), last).front().mean, 1.0);
}

TEST_F(WindowTest, OutputChangeIsTheDifferenceOfWindowedOutputs) {
  const Trace& windowed = trace(20);
  const Replay result = run(windowed, "keydiff", 6);
  const LayerStates states = load_layer_states(windowed, 1);
  const int step = 2, query = result.blocks[2].end - 1;
  std::vector<std::vector<std::int32_t>> left;
  for (int head = 0; head < 2; ++head) left.push_back(result.seen_at(*result.find(1, head), step));
  const ModelInfo& model = windowed.model();
  Eigen::VectorXd expected = Eigen::VectorXd::Zero(model.hidden_size);
  for (int q = 0; q < model.num_heads; ++q) {
    const Matrix& keys = states.keys[model.head_of(q)];
    const Matrix& values = states.values[model.head_of(q)];
    const auto& has = left[model.head_of(q)];
    const auto output = [&](bool cut) {
      Eigen::VectorXd sum = Eigen::VectorXd::Zero(model.head_dim);
      double mass = 0;
      for (int j = 0; j <= query; ++j) {
        if (query - j >= 20 || (cut && !std::binary_search(has.begin(), has.end(), j))) continue;
        const auto own = states.queries[q].row(query).cast<double>();
        const double weight =
            std::exp(own.dot(keys.row(j).cast<double>()) * windowed.run().attention_scale);
        sum += weight * values.row(j).cast<double>().transpose();
        mass += weight;
      }
      return Eigen::VectorXd(sum / mass);
    };
    Matrix room;
    expected += states.output_weights[q].floats(room).cast<double>().transpose() *
                (output(true) - output(false));
  }
  const Eigen::VectorXd change =
      output_change(states, model, windowed.run().attention_scale, left, query);
  EXPECT_LT((change - expected).norm(), 1e-5 * (1 + expected.norm()));
  EXPECT_GT(expected.norm(), 1e-3);
}

TEST_F(WindowTest, DriftRefusesWhatIsOfAnotherWindowOrUndefined) {
  test::write_synthetic_closed_loop(folder_ / "closed.h5", options(20), "h2o", 8);
  const Trace closed(folder_ / "closed.h5");
  const Drift drift = measure_drift(trace(20), closed, test::unwatched);
  EXPECT_EQ(drift.layers.front().key, 0.0);
  EXPECT_GT(drift.layers.front().output, 0.0);
  EXPECT_TRUE(is_drift_pair(trace(20), closed));
  EXPECT_FALSE(is_drift_pair(trace(23), closed));
  EXPECT_THAT(test::error_of<FileError>([&] { measure_drift(trace(0), closed, test::unwatched); }),
              HasSubstr("sees a window of 20 tokens"));
}

TEST_F(WindowTest, HostileAttributesAreRefusedOrMeanWhatTheySay) {
  const auto opened = [&](const auto& change) -> std::string {
    test::write_synthetic_trace(folder_ / "h.h5", options(20));
    {
      test::EditedTrace edit(folder_ / "h.h5");
      change(edit);
    }
    try {
      return std::to_string(Trace(folder_ / "h.h5").window(0));
    } catch (const FileError& error) {
      return error.what();
    }
  };
  const auto number = [&](std::int64_t value) {
    return opened([&](auto& e) { e.integer("/model", "sliding_window", value); });
  };
  EXPECT_THAT(number(-1), HasSubstr("'sliding_window'"));
  EXPECT_THAT(number(std::int64_t{1} << 40), HasSubstr("'sliding_window'"));
  EXPECT_THAT(number(std::numeric_limits<std::int64_t>::min()), HasSubstr("'sliding_window'"));
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(1), "1");
  EXPECT_EQ(number(kTokens - 1), std::to_string(kTokens - 1));
  EXPECT_EQ(number(1000000), "0");
  EXPECT_EQ(opened([](auto& e) { e.remove_attribute("/model", "sliding_window"); }), "0")
      << "a trace need not say";
  EXPECT_THAT(opened([](auto& e) { e.real("/model", "sliding_window", 2.5); }),
              HasSubstr("'sliding_window'"));
}

TEST_F(WindowTest, AClosedLoopTraceIsReplayedByItsOwnPolicy) {
  test::write_synthetic_closed_loop(folder_ / "closed.h5", options(20), "tova", 8);
  const Trace closed(folder_ / "closed.h5");
  const Replay own = run(closed, "tova", 8);
  for (int head = 0; head < 2; ++head) {
    EXPECT_EQ(own.find(0, head)->evicted_at, *closed.evicted_at(0, head));
  }
}

}  // namespace
}  // namespace kvloupe

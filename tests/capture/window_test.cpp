// Models with a sliding window that run with a policy in their caches, longer than the window:
// against the replay, the full run and the naive model.
#include "analysis/replay/drift.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/follow_trace.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kAllTokens = 60;
constexpr int kPromptTokens = 45;
constexpr int kWindowBlock = 8;

/// A tiny Mistral with the window of the test's parameter, and a sequence.
struct WindowedRun : testing::TestWithParam<int>, TinyRun {
  WindowedRun() : TinyRun({.architecture = "MistralForCausalLM", .layers = 3}, kAllTokens, 11) {
    prompt_length_ = kPromptTokens;
    write_checkpoint(GetParam());
  }
  static int window() { return GetParam(); }
  void write_checkpoint(int window, const std::string& more = "") {
    tiny_.more = "{\"sliding_window\": " + std::to_string(window) + more + "}";
    tiny_.write(folder_.path());
  }
  Trace full(int block) const { return run(request(block, "full.h5")); }
  Trace closed(int block, const std::string& policy, int budget) const {
    return run(request(block, "closed.h5"), policy, std::to_string(budget));
  }
};

void expect_same_evictions(const Trace& trace, const Replay& replay, int layer) {
  for (int head = 0; head < trace.model().num_kv_heads; ++head) {
    EXPECT_EQ(trace.evicted_at(layer, head), replay.find(layer, head)->evicted_at)
        << "layer " << layer << ", head " << head;
  }
  std::size_t merged = 0;
  for (const HeadReplay& head : replay.heads) {
    if (head.layer != layer) continue;
    for (std::size_t step = 0; step < replay.blocks.size(); ++step) {
      for (const Merge& merge : replay.merges_at(head, static_cast<int>(step))) {
        merged += merge.from.size();
      }
    }
  }
  EXPECT_EQ(trace.merges(layer).size(), merged) << "layer " << layer;
}

/// The step after which no later query sees a token; −1 where one does to the end.
int leaves_at(const Trace& trace, int token, int window) {
  for (std::size_t step = 0; step < trace.blocks().size(); ++step) {
    const int next_query = trace.blocks()[step].end;
    if (next_query > token && next_query - token >= window) return static_cast<int>(step);
  }
  return -1;
}

TEST_P(WindowedRun, LayerZeroDecidesAsTheReplayOfTheFullRunDoes) {
  std::vector<std::string> specs = examples_for_a_model();
  specs.insert(specs.end(),
               {"tova(layer)", "h2o(visible)+recent(50%)", "snapkv(4,pool=max)+critical",
                "keydiff(median)+sinks(2)", "h2o+caote+adakv", "tova+kvmerger(auto,rotate=pre)",
                "h2o+kvmerger(0.4,log_size=1)", "keydiff+cam(4)", "h2o+critical+pyramid(2)"});
  for (const int block : {kWindowBlock, 1}) {
    if (block == 1 && window() != 13) continue;  // one window is enough for steps of one token
    const Trace whole = full(block);
    EXPECT_EQ(whole.window(0), window());
    for (const std::string& spec : specs) {
      if (spec == "full") continue;
      SCOPED_TRACE(spec + ", block " + std::to_string(block));
      const Trace cut = closed(block, spec, 6);
      if (!has_trait(parse_policy(spec), &PolicyTraits::reads_pass)) {
        expect_same_evictions(cut, replay_of(whole, spec, 6), 0);  // nothing but layer 0 decides it
      }
      // The decisions of every layer follow from the states in the trace.
      const Replay own = replay_of(cut, spec, 6);
      for (int layer = 0; layer < tiny_.layers; ++layer) expect_same_evictions(cut, own, layer);
      if (HasFailure()) return;
    }
  }
}

TEST_P(WindowedRun, ABudgetThatHoldsTheWindowChangesNothing) {
  for (const int block : {kWindowBlock, 1, 16}) {
    const Trace whole = full(block);
    const auto expected = whole.predictions();
    // When a policy decides, window − 1 entries are left.
    for (const int budget : {std::max(window() - 1, 1), window()}) {
      for (const char* spec : {"sink", "keydiff+caote", "h2o+kvmerger", "snapkv(4)+adakv",
                               "tova+pyramid", "h2o+critical+sinks(3)"}) {
        SCOPED_TRACE(std::string(spec) + ", block " + std::to_string(block));
        const Trace cut = closed(block, spec, budget);
        EXPECT_EQ(cut.predictions()->token_ids, expected->token_ids);
        EXPECT_EQ(cut.predictions()->logprob, expected->logprob);
        for (int layer = 0; layer < tiny_.layers; ++layer) {
          EXPECT_EQ(cut.query(layer, 1), whole.query(layer, 1));
          EXPECT_EQ(cut.value(layer, 0), whole.value(layer, 0));
          EXPECT_EQ(stored_attention(cut, layer, 1), stored_attention(whole, layer, 1));
          EXPECT_TRUE(cut.merges(layer).empty());
          const auto left = *cut.evicted_at(layer, 1);
          for (int token = 0; token < kAllTokens; ++token) {
            ASSERT_EQ(left[token], leaves_at(cut, token, window()));
          }
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(WindowedRun, TheModelAttendsToWhatTheTraceSaysItHolds) {
  const NaiveModel naive(folder_.path());
  ASSERT_EQ(naive.window, window());
  for (const char* spec : {"sink", "h2o", "snapkv(4)+adakv"}) {
    SCOPED_TRACE(spec);
    const Trace cut = closed(kWindowBlock, spec, 5);
    expect_like_naive(cut, naive.run(cut.tokens().ids, cut.blocks(), follow(cut), false), 2e-4);
  }
}

TEST_P(WindowedRun, DriftComparesWhatIsLeftOfTheWindow) {
  const Trace whole = full(kWindowBlock);
  const Drift none = measure_drift(whole, closed(kWindowBlock, "h2o", window()), unwatched);
  EXPECT_EQ(none.first_eviction, static_cast<int>(none.blocks.size()));
  for (const HeadDrift& head : none.heads) EXPECT_THAT(head.jaccard, Each(1.0));
  for (const LayerDrift& layer : none.layers) EXPECT_EQ(layer.output + layer.key, 0.0);
  EXPECT_EQ(none.mean_divergence(), 0.0);

  const Trace cut = closed(kWindowBlock, "h2o", 4);
  const Drift drift = measure_drift(whole, cut, unwatched);
  const bool evicts = window() > 5;
  EXPECT_EQ(drift.first_eviction, evicts ? 0 : static_cast<int>(drift.blocks.size()));
  EXPECT_EQ(drift.layers[2].key > 1e-4, evicts);
  // The output of layer 0 in plain loops, of which the queries and keys are the full run's.
  double difference = 0, size = 0;
  for (int q = 0; q < tiny_.heads; ++q) {
    const int head = cut.model().head_of(q);
    const Matrix queries = cut.query(0, q), keys = cut.key(0, head), values = cut.value(0, head);
    const auto left = *cut.evicted_at(0, head);
    for (std::size_t step = 0; step < cut.blocks().size(); ++step) {
      for (int t = cut.blocks()[step].first; t < cut.blocks()[step].end; ++t) {
        const auto output = [&](bool all) {
          Eigen::VectorXd sum = Eigen::VectorXd::Zero(values.cols());
          double mass = 0;
          for (int j = std::max(0, t - window() + 1); j <= t; ++j) {
            const int gone = left[j];
            if (!all && gone >= 0 && gone < static_cast<int>(step)) continue;
            const double logit = queries.row(t).cast<double>().dot(keys.row(j).cast<double>());
            const double weight = std::exp(logit * cut.run().attention_scale);
            sum += weight * values.row(j).cast<double>().transpose();
            mass += weight;
          }
          return Eigen::VectorXd(sum / mass);
        };
        difference += (output(true) - output(false)).squaredNorm();
        size += output(true).squaredNorm();
      }
    }
  }
  EXPECT_NEAR(drift.layers[0].output, std::sqrt(difference / size), 1e-5);
  EXPECT_EQ(drift.layers[0].output > 1e-3, evicts);
}

// Windows for 60 tokens in blocks of 8: one, below a block, a block, not a multiple of one, all but
// one.
INSTANTIATE_TEST_SUITE_P(Windows, WindowedRun, testing::Values(1, 5, 8, 13, 59));

class EndsWithTheWindow : public WindowedRun {};

/// A sequence as long as the window is the same as without one, however its end came about.
TEST_P(EndsWithTheWindow, NothingLeavesUnseen) {
  CaptureRequest wanted = request(kWindowBlock, "closed.h5");
  wanted.policy = parse_policy("h2o");
  wanted.budget = parse_budget("9");
  wanted.prompt_length.reset();
  wanted.generate = 12;
  capture(wanted);
  const std::vector<std::int32_t> ids = Trace(wanted.target).tokens().ids;
  // The first generated token ends the text, where up to twelve were asked for; there the window
  // ends, too.
  constexpr int end = kAllTokens + 1;
  const std::int32_t last = ids[kAllTokens];
  write_checkpoint(end, ", \"eos_token_id\": " + std::to_string(last));
  capture(wanted);
  const Trace cut(wanted.target);
  ASSERT_EQ(cut.length(), end);
  EXPECT_EQ(cut.window(0), 0);
  const Replay own = replay_of(cut, "h2o", 9);
  for (int layer = 0; layer < tiny_.layers; ++layer) expect_same_evictions(cut, own, layer);
  // The same without any window.
  write_checkpoint(500, ", \"eos_token_id\": " + std::to_string(last));
  wanted.target = folder_ / "without.h5";
  capture(wanted);
  const Trace without(wanted.target);
  EXPECT_EQ(without.predictions()->logprob, cut.predictions()->logprob);
  for (int head = 0; head < tiny_.kv_heads; ++head) {
    EXPECT_EQ(without.evicted_at(1, head), cut.evicted_at(1, head));
  }
}

TEST_P(EndsWithTheWindow, CompactPositionsAreRefusedBeyondTheWindowByName) {
  CaptureRequest wanted = request(kWindowBlock, "closed.h5");
  wanted.policy = parse_policy("sink");
  wanted.budget = parse_budget("9");
  wanted.positions = Positions::compact;
  capture(wanted);  // as long as the window
  write_checkpoint(kAllTokens - 1);
  wanted.target = folder_ / "longer.h5";
  EXPECT_THAT(error_of<WorkError>([&] { capture(wanted); }),
              HasSubstr("compact positions are not defined beyond the model's sliding "
                        "window of 59 tokens"));
  EXPECT_FALSE(std::filesystem::exists(wanted.target));
}

INSTANTIATE_TEST_SUITE_P(Windows, EndsWithTheWindow, testing::Values(kAllTokens));

}  // namespace
}  // namespace kvloupe::test

// A second reading of the context, in the model: its states against the naive model, what it leaves
// alone, and the policies that decide by it in the model's own cache.
#include "capture/run/probe.h"
#include "analysis/trace/trace_probe.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/follow_trace.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kProbeTokens = 60;
constexpr int kPrompt = 50;
constexpr int kQuestion = 40;

/// A token for each letter.
class Letters : public Tokenizer {
 public:
  std::int32_t size() const override { return 256; }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  std::optional<std::int32_t> eos() const override { return std::nullopt; }
  bool is_special(std::int32_t) const override { return false; }
  std::vector<EncodedToken> encode(std::string_view text) const override {
    std::vector<EncodedToken> tokens;
    for (std::size_t i = 0; i < text.size(); ++i) {
      tokens.push_back({static_cast<unsigned char>(text[i]), i, i + 1});
    }
    return tokens;
  }
  std::string piece_bytes(std::int32_t) const override { return ""; }
  std::string decode(const std::vector<std::int32_t>& ids) const override {
    return {ids.begin(), ids.end()};
  }
};

TEST(MakeProbe, AsksInKvZipsWordsForPartsOf2048Tokens) {
  std::vector<std::int32_t> context(5000);
  for (std::size_t i = 0; i < context.size(); ++i) context[i] = static_cast<std::int32_t>(i % 200);
  const Letters letters;
  const ProbeInfo probe = make_probe(ProbeKind::repeat, context, &letters);
  EXPECT_EQ(probe.kind, "repeat");
  EXPECT_EQ(probe.context_end, 5000);
  ASSERT_EQ(probe.passes.size(), 3U);
  const std::string first = "\n\nRepeat the previous context exactly.\n";
  const std::string next = "\n\nRepeat the part of the previous context exactly, starting with";
  int at = 0;
  for (const auto& [begin, end] :
       {std::pair(0, 2048), std::pair(2048, 4096), std::pair(4096, 5000)}) {
    const ProbePass& pass = probe.passes[begin / 2048];
    EXPECT_EQ(pass.context.first, begin);
    EXPECT_EQ(pass.context.end, end);
    EXPECT_EQ(pass.tokens.first, at);
    at = pass.tokens.end;
    const std::vector<std::int32_t> ids(probe.ids.begin() + pass.tokens.first,
                                        probe.ids.begin() + pass.tokens.end);
    std::vector<std::int32_t> wanted;
    const std::string& request = begin == 0 ? first : next;
    wanted.assign(request.begin(), request.end());
    if (begin > 0) {
      wanted.insert(wanted.end(), context.begin() + begin - 8, context.begin() + begin);
      wanted.push_back('\n');
    }
    wanted.insert(wanted.end(), context.begin() + begin, context.begin() + end);
    EXPECT_EQ(ids, wanted);
  }
  EXPECT_EQ(at, probe.tokens());
}

TEST(MakeProbe, RereadsTheContextAsItIs) {
  const std::vector<std::int32_t> context = {4, 5, 6};
  const ProbeInfo probe = make_probe(ProbeKind::reread, context, nullptr);
  EXPECT_THAT(probe.ids, ElementsAre(4, 5, 6));
  ASSERT_EQ(probe.passes.size(), 1U);
  EXPECT_EQ(probe.passes[0].tokens.size(), 3);
  EXPECT_EQ(probe.passes[0].context.size(), 3);
  EXPECT_THROW(make_probe(ProbeKind::repeat, context, nullptr), UsageError);
  EXPECT_THROW(make_probe(ProbeKind::reread, {}, nullptr), UsageError);
}

struct ProbeTest : testing::Test, TinyRun {
  explicit ProbeTest(TinyCheckpoint tiny = {}) : TinyRun(std::move(tiny), kProbeTokens, 11) {
    prompt_length_ = kPrompt;
    attention_ = CaptureRequest{}.attention;
  }

  CaptureRequest request(int block, bool question = true) const {
    CaptureRequest wanted = TinyRun::request(block);
    if (question) wanted.question = kQuestion;
    wanted.probe = ProbeKind::reread;
    return wanted;
  }

  Trace closed_loop(CaptureRequest request, const std::string& policy, int budget) const {
    request.target = folder_ / "closed.h5";
    return run(request, policy, std::to_string(budget));
  }

  /// The probe's states are those of the model that reads the context and then the pass.
  void expect_probe_like_naive(const Trace& trace) const {
    const NaiveModel naive(folder_.path());
    const TraceProbe read(trace);
    ASSERT_TRUE(read.info());
    const ProbeInfo& probe = *read.info();
    std::vector<std::int32_t> ids(trace.tokens().ids.begin(),
                                  trace.tokens().ids.begin() + probe.context_end);
    ids.insert(ids.end(), probe.ids.begin(), probe.ids.end());
    const NaiveModel::Result result = naive.run(ids);
    for (int layer = 0; layer < trace.model().num_layers; ++layer) {
      const NaiveStates& states = result.layers[layer];
      const auto compare = [&](const Matrix& found, const Rows& wanted) {
        ASSERT_EQ(found.rows(), probe.tokens());
        for (const auto& [row, c] : cells(found.rows(), found.cols())) {
          EXPECT_NEAR(found(row, c), wanted[probe.context_end + row][c], 1e-4);
        }
      };
      for (int head = 0; head < trace.model().num_heads; ++head) {
        compare(read.query(layer, head), states.query[head]);
      }
      for (int head = 0; head < trace.model().num_kv_heads; ++head) {
        compare(read.key(layer, head), states.key[head]);
      }
      const std::vector<float> norms = read.input_norm(layer);
      ASSERT_EQ(norms.size(), static_cast<std::size_t>(probe.tokens()));
      for (std::size_t row = 0; row < norms.size() && layer > 0; ++row) {
        const std::size_t token = static_cast<std::size_t>(probe.context_end) + row;
        double squares = 0.0;
        for (const double x : naive.attention_input(
                 layer, result.hidden[static_cast<std::size_t>(layer) - 1][token])) {
          squares += x * x;
        }
        EXPECT_NEAR(static_cast<double>(norms[row]), std::sqrt(squares), 1e-4);
      }
    }
  }
  static void expect_same_states(const Trace& a, const Trace& b) {
    for (const auto& [layer, head] : cells(a.model().num_layers, a.model().num_heads)) {
      EXPECT_EQ(a.query(layer, head), b.query(layer, head));
    }
    EXPECT_EQ(a.predictions()->logprob, b.predictions()->logprob);
  }
};

TEST_F(ProbeTest, StatesAreThoseOfAModelThatReadsOn) {
  for (const int block : {7, 16, kWholePrompt}) {
    for (const bool question : {true, false}) {
      capture(request(block, question));
      const Trace trace(folder_ / "trace.h5");
      ASSERT_TRUE(TraceProbe(trace).info());
      EXPECT_EQ(TraceProbe(trace).info()->context_end, question ? kQuestion : kPrompt);
      expect_probe_like_naive(trace);
      CaptureRequest without = request(block, question);
      without.probe.reset();
      without.target = folder_ / "without.h5";
      capture(without);
      const Trace plain(without.target);
      EXPECT_FALSE(TraceProbe(plain).info());
      expect_same_states(trace, plain);
    }
  }
}

TEST_F(ProbeTest, PoliciesDecideInTheModelAsInTheReplayOfItsTrace) {
  for (const char* policy : {"kvzip", "kvzip+global", "kvzip(plus=1)+global", "kvcompose",
                             "kvcompose(values=1)+global(by=layer)", "kvzip+recent(3)+adakv(0)"}) {
    for (const Compression compression : {Compression::regular, Compression::context_only}) {
      for (const Storage storage : {Storage::float32, Storage::float16}) {
        SCOPED_TRACE(policy);
        CaptureRequest wanted = request(kWholePrompt);
        wanted.compression = compression;
        wanted.storage = storage;
        const Trace closed = closed_loop(wanted, policy, 12);
        ASSERT_TRUE(TraceProbe(closed).info());
        ReplayRequest again{.policy = parse_policy(policy), .budget = 12, .metrics = false};
        const Replay replay = kvloupe::replay(closed, again, unwatched);
        bool evicted = false;
        for (const auto& [layer, head] : cells(tiny_.layers, tiny_.kv_heads)) {
          EXPECT_EQ(*closed.evicted_at(layer, head), replay.find(layer, head)->evicted_at)
              << layer << "." << head;
          const std::vector<std::int32_t> steps = *closed.evicted_at(layer, head);
          evicted |= std::any_of(steps.begin(), steps.end(), [](int step) { return step >= 0; });
        }
        EXPECT_TRUE(evicted);
      }
    }
  }
}

TEST_F(ProbeTest, TheModelGoesOnWithWhatThePolicyLeft) {
  CaptureRequest wanted = request(kWholePrompt);
  wanted.compression = Compression::context_only;
  const Trace closed = closed_loop(wanted, "kvzip+global", 8);
  // The probe sees the whole context whatever is evicted after it.
  expect_probe_like_naive(closed);
  const NaiveModel naive(folder_.path());
  expect_like_naive(
      closed, naive.run(closed.tokens().ids, closed.blocks(), follow(closed, {}), false), 2e-4);
}

TEST_F(ProbeTest, AProbeDoesNotChangeAPolicyThatDoesNotReadIt) {
  CaptureRequest wanted = request(kWholePrompt);
  const Trace with = closed_loop(wanted, "snapkv(4)", 10);
  ASSERT_TRUE(TraceProbe(with).info());
  wanted.probe.reset();
  wanted.policy = parse_policy("snapkv(4)");
  wanted.budget = parse_budget("10");
  wanted.target = folder_ / "plain.h5";
  capture(wanted);
  const Trace without(wanted.target);
  expect_same_states(with, without);
  for (const auto& [layer, head] : cells(tiny_.layers, tiny_.kv_heads)) {
    EXPECT_EQ(with.evicted_at(layer, head), without.evicted_at(layer, head));
  }
}

TEST_F(ProbeTest, WhatCannotBeIsRefusedInOneLineAndLeavesNothing) {
  const auto refusal = [&](const CaptureRequest& request) {
    try {
      capture(request);
    } catch (const UsageError& error) {
      EXPECT_FALSE(std::filesystem::exists(request.target));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return std::string(error.what());
    }
    return std::string();
  };
  CaptureRequest wanted = request(16);
  wanted.policy = parse_policy("kvzip");
  wanted.budget = parse_budget("12");
  EXPECT_THAT(refusal(wanted), HasSubstr("--block all"));
  wanted.policy = parse_policy("h2o");
  EXPECT_THAT(refusal(wanted), HasSubstr("--probe: the model reads its context of 40 tokens"));
  CaptureRequest asks = request(16);
  asks.probe = ProbeKind::repeat;
  EXPECT_THAT(refusal(asks), HasSubstr("--probe reread"));
}

struct WindowedProbeTest : ProbeTest {
  WindowedProbeTest() : ProbeTest(windowed()) {}
  static TinyCheckpoint windowed() {
    return TinyCheckpoint{.architecture = "MistralForCausalLM",
                          .more = R"({"sliding_window": 17})"};
  }
};

TEST_F(WindowedProbeTest, SeesThroughTheModelsWindow) {
  capture(request(16));
  expect_probe_like_naive(Trace(folder_ / "trace.h5"));
  const Trace closed = closed_loop(request(kWholePrompt), "kvzip+global", 6);
  ReplayRequest again{.policy = parse_policy("kvzip+global"), .budget = 6, .metrics = false};
  const Replay replay = kvloupe::replay(closed, again, unwatched);
  for (const auto& [layer, head] : cells(tiny_.layers, tiny_.kv_heads)) {
    EXPECT_EQ(*closed.evicted_at(layer, head), replay.find(layer, head)->evicted_at);
  }
}

}  // namespace
}  // namespace kvloupe::test

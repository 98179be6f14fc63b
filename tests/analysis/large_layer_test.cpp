// Layers that are too large to be held whole: read block by block and head by head, they give what
// they give from memory.

#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/record/state_rows.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/long_trace.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

constexpr std::size_t kNothingFits = 0;

std::vector<std::string> specs() {
  std::vector<std::string> result;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (!test::stands_alone(entry)) continue;
    const std::string own = entry.example.empty() ? entry.name : entry.example;
    result.push_back(entry.kind() == PartKind::score ? own : "h2o+" + entry.name);
  }
  result.emplace_back("keydiff+kvmerger(0.2,recent=0,heavy=0)");
  result.emplace_back("tova+caote");
  return result;
}

struct LargeLayer : testing::Test, test::MadeTrace {
  LargeLayer()
      : MadeTrace(
            {.head_dim = 8, .prompt_length = 72, .generated = 3, .block = 16, .clusters = 6}) {}
  Replay run(const std::string& spec) { return MadeTrace::run(spec, 20, {.metrics = false}); }
};

TEST_F(LargeLayer, EveryPolicyDecidesBlockByBlockAsItDoesFromMemory) {
  const LayerStates states = load_layer_states(*trace_, 1);
  LayerStates weights;
  weights.output_weights = states.output_weights;
  int compared = 0;
  for (const std::string& spec : specs()) {
    const PolicySpec policy = parse_policy(spec);
    if (has_trait(policy, &PolicyTraits::needs_future)) continue;
    LayerContext context{.layer = 1,
                         .model = trace_->model(),
                         .attention = trace_->attention(1),
                         .budget = 20,
                         .output_weights = states.output_weights};
    LayerReplayInput input{states, trace_->blocks(), policy, context, false, 1};
    const std::vector<HeadReplay> whole = replay_layer(input, test::unwatched);
    StateRows rows(*trace_, 1, {}, 1);
    LayerReplayInput by_block{weights, trace_->blocks(), policy, context, false, 1};
    by_block.rows = &rows;
    const std::vector<HeadReplay> read = replay_layer(by_block, test::unwatched);
    ASSERT_EQ(read.size(), whole.size());
    for (std::size_t h = 0; h < whole.size(); ++h) {
      EXPECT_EQ(read[h].evicted_at, whole[h].evicted_at) << spec;
      EXPECT_EQ(read[h].scores, whole[h].scores) << spec;
      for (std::size_t step = 0; step < whole[h].steps.size(); ++step) {
        EXPECT_EQ(read[h].steps[step].merges.size(), whole[h].steps[step].merges.size()) << spec;
      }
    }
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST_F(LargeLayer, EveryMeasureReadsHeadByHeadWhatItReadsFromMemory) {
  for (const std::string spec :
       {"keydiff", "h2o+adakv", "keydiff+kvmerger(0.2,recent=0,heavy=0)"}) {
    const Replay bare = run(spec);
    MeasureRequest request;
    for (const Measure& measure : all_measures()) request.measures.push_back(measure.info->name);
    const Replay whole = measure_replay(*trace_, bare, request, test::unwatched);
    request.most_layer_bytes = kNothingFits;
    const Replay by_head = measure_replay(*trace_, bare, request, test::unwatched);
    request.layers = {1};
    request.head = 1;
    const Replay one = measure_replay(*trace_, bare, request, test::unwatched);
    ASSERT_EQ(one.heads.size(), 1U);
    // A measure of a whole layer or model is unknown if not all of its heads were measured.
    const auto of_more_heads = [](const std::string& name) {
      for (const char* end :
           {"_residual_part", "_layer_error", "_residual_change", "_logit_change"}) {
        if (name.ends_with(end)) return true;
      }
      return false;
    };
    const auto compare = [&](const HeadReplay& a, const HeadReplay& b, bool alone = false) {
      EXPECT_EQ(a.layer, b.layer);
      EXPECT_EQ(a.head, b.head);
      for (const Measure& measure : all_measures()) {
        if (alone && of_more_heads(measure.info->name)) continue;
        const double x = measure_of(measure, a), y = measure_of(measure, b);
        EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
            << spec << ", " << measure.info->name << ": " << x << " and " << y;
      }
    };
    ASSERT_EQ(by_head.heads.size(), whole.heads.size());
    for (std::size_t h = 0; h < whole.heads.size(); ++h) compare(by_head.heads[h], whole.heads[h]);
    compare(one.heads[0], *whole.find(1, 1), true);
  }
}

TEST_F(LargeLayer, HeadByHeadNothingIsKept) {
  const Replay bare = run("keydiff");
  LayerStatesCache states(std::size_t{1} << 24U);
  MeasureRequest request{.measures = {"perturbation_l1", "key_objective"},
                         .steps = {4},
                         .states = &states,
                         .most_layer_bytes = kNothingFits};
  measure_replay(*trace_, bare, request, test::unwatched);
  EXPECT_EQ(states.bytes(), 0U);
  request.most_layer_bytes = kLargeLayer;
  measure_replay(*trace_, bare, request, test::unwatched);
  EXPECT_GT(states.bytes(), 0U);
}

/// A trace is one open file: whoever puts another file in its place changes nothing for those who
/// read.
TEST_F(LargeLayer, AFileThatIsReplacedIsReadOnAsItWas) {
  StateRows before(*trace_, 1, {});
  const Matrix wanted = before.of({0, 16}).keys.front();
  test::SyntheticTraceOptions other = options_;
  other.seed = 9;
  other.prompt_length = 80;
  test::write_synthetic_trace(folder_ / "other.h5", other);
  fs::rename(folder_ / "other.h5", folder_ / "trace.h5");
  StateRows after(*trace_, 1, {});
  ASSERT_EQ(after.of({0, 16}).keys.size(), 2U);
  EXPECT_EQ(after.of({0, 16}).keys.front(), wanted);
}

/// Blocks that do and do not end where the tokens end that are read at a time.
TEST_F(LargeLayer, RowsAreThoseOfTheTrace) {
  test::SyntheticTraceOptions options = options_;
  options.prompt_length = 900;
  options.logsumexp = options.predictions = false;
  test::write_synthetic_trace(folder_ / "longer.h5", options);
  const Trace trace(folder_ / "longer.h5");
  const LayerStates states = load_layer_states(trace, 1);
  for (const int m : {1, 100, 128, 300, 903}) {
    StateRows rows(trace, 1, {}, 1);  // 256 tokens at a time
    StateRows held(states);
    for (int first = 0; first < trace.length(); first += m) {
      const Block block{first, std::min(first + m, trace.length())};
      const StateRows::Rows read = rows.of(block), wanted = held.of(block);
      const auto same = [](const std::vector<MatrixView>& a, const std::vector<MatrixView>& b) {
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t head = 0; head < a.size(); ++head) {
          ASSERT_EQ(a[head].rows(), b[head].rows());
          EXPECT_EQ(a[head], b[head]);
        }
      };
      same(read.queries, wanted.queries);
      same(read.keys, wanted.keys);
      same(read.values, wanted.values);
    }
    EXPECT_EQ(rows.of({5, 9}).keys[1], held.of({5, 9}).keys[1]) << "blocks may come in any order";
  }
  StateRows keys(trace, 0, StateParts::keys_only());
  EXPECT_TRUE(keys.of({0, 4}).queries.empty());
  EXPECT_TRUE(keys.of({0, 4}).values.empty());
  EXPECT_THROW(keys.of({900, 904}), UsageError);
}

TEST(LongTraceTest, LayersAreTheSameDataAndTakeNoMoreDisk) {
  const test::TemporaryFolder folder;
  test::LongTraceOptions options{.query_heads = 4, .heads = 2, .head_dim = 16, .tokens = 300};
  test::write_long_trace(folder / "one.h5", options);
  options.layers = 5;
  test::write_long_trace(folder / "five.h5", options);
  const Trace one(folder / "one.h5"), five(folder / "five.h5");
  ASSERT_EQ(five.model().num_layers, 5);
  for (int layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(five.key(layer, 1), one.key(0, 1));
    EXPECT_EQ(five.query(layer, 3), one.query(0, 3));
  }
  EXPECT_LT(fs::file_size(folder / "five.h5"), fs::file_size(folder / "one.h5") + 4096U);
  // The norms it states are those of v W_O.
  const Matrix outputs = one.value(0, 1) * [&] {
    Matrix room;
    return Matrix(one.output_weight(0, 2)->floats(room));
  }();
  const std::vector<float> stated = one.value_out_norm(0, 2, Norm::l1);
  for (Eigen::Index i = 0; i < outputs.rows(); ++i) {
    EXPECT_NEAR(stated[i], outputs.row(i).lpNorm<1>(), 1e-3);
  }
}

}  // namespace
}  // namespace kvloupe

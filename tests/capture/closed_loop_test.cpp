// Models that run with a policy in their caches: against the replay, the full run and the naive
// model.
#include <c10/core/InferenceMode.h>

#include "analysis/replay/typed_values.h"
#include "analysis/trace/given_tokens.h"
#include "capture/eval/eval_run.h"
#include "capture/model/load_transformer.h"
#include "capture/run/cache_policy.h"
#include "capture/run/model_description.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/follow_trace.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kLoopTokens = 90;
constexpr int kLoopPrompt = 70;

struct ClosedLoopTest : testing::Test, TinyRun {
  ClosedLoopTest() : TinyRun({.layers = 3}, kLoopTokens, 11) { prompt_length_ = kLoopPrompt; }
};

/// By step, head and entries.
std::vector<MergedEntry> sorted(std::vector<MergedEntry> merges) {
  const auto key = [](const MergedEntry& entry) {
    return std::tuple(entry.step, entry.head, entry.into, entry.from);
  };
  std::sort(merges.begin(), merges.end(),
            [&](const MergedEntry& a, const MergedEntry& b) { return key(a) < key(b); });
  return merges;
}

/// A layer's merges of a replay as a closed-loop trace lists them.
std::vector<MergedEntry> merges_of(const Replay& replay, int layer, int heads) {
  std::vector<MergedEntry> result;
  for (std::size_t step = 0; step < replay.blocks.size(); ++step) {
    for (int head = 0; head < heads; ++head) {
      for (const Merge& merge :
           replay.merges_at(*replay.find(layer, head), static_cast<int>(step))) {
        for (std::size_t i = 0; i < merge.from.size(); ++i) {
          result.push_back(
              {head, static_cast<int>(step), merge.into, merge.from[i], merge.weights[i]});
        }
      }
    }
  }
  return result;
}

void expect_same_decisions(const Trace& trace, const Replay& replay, int layer) {
  const int heads = trace.model().num_kv_heads;
  for (int head = 0; head < heads; ++head) {
    EXPECT_EQ(trace.evicted_at(layer, head), replay.find(layer, head)->evicted_at)
        << "layer " << layer << ", head " << head;
  }
  EXPECT_EQ(sorted(trace.merges(layer)), sorted(merges_of(replay, layer, heads)))
      << "layer " << layer;
}

double largest_difference(const Matrix& a, const Matrix& b) {
  return static_cast<double>((a - b).cwiseAbs().maxCoeff());
}

TEST_F(ClosedLoopTest, LayerZeroDecidesAsTheReplayOfTheFullRunDoes) {
  std::vector<std::string> specs = examples_for_a_model();
  const std::vector<std::string> more = words(R"(
      tova(layer) h2o(visible)+recent(50%) snapkv(8,pool=max) keydiff(pairwise) keydiff(median)
      keynorm+adakv h2o+caote tova+fastcaote+sinks(2) snapkv(4)+critical
      h2o+kvmerger(0.5,log_size=1) tova+kvmerger(auto,rotate=pre) keydiff+cam(4) h2o+every(2)
      vase(4,8)+every(2)+only rkv(4)+slack(3) raas+protect_prompt(1)+slack(2) keydiff+only(prompt)
      attentionmatching(keys=omp)+sinks(2) vase(20%,4,expected=1)+every(3)+adakv
      epikv(a=1,b=0,window=5,recent=3)+protect_prompt(1) epikv(recent=0)+every(2)
      thinkv(segment=4,reasoning=2,execution=1,transition=0,recent=2)
      h2o+quant(2,group=8,residual=2) keydiff+quant(group=8,keys=token,residual=4)
      tova+caote+quant(8,group=8,values=channel,residual=0)
      epikv(recent=0)+quant(group=8,residual=2)
      thinkv(segment=3,reasoning=2,execution=1,transition=0,layers=1)+sinks(2)+pyramid)");
  specs.insert(specs.end(), more.begin(), more.end());
  EXPECT_GT(specs.size(), 25U);
  long deeper_differs = 0;
  long merged = 0;
  for (const int block : {16, 1}) {
    const Trace full = run(request(block));
    for (const std::string& spec : specs) {
      if (spec == "full") continue;
      SCOPED_TRACE(spec + ", block " + std::to_string(block));
      for (const int budget : {9, 24}) {
        const Trace closed = run(request(block, "closed.h5"), spec, std::to_string(budget));
        EXPECT_EQ(closed.run().policy, parse_policy(spec).text());
        EXPECT_EQ(closed.run().budget, budget);
        ASSERT_EQ(closed.tokens().ids, full.tokens().ids);
        const Replay open = replay_of(full, spec, budget);
        if (!has_trait(parse_policy(spec), &PolicyTraits::reads_pass)) {
          expect_same_decisions(closed, open, 0);  // nothing but layer 0 decides it
        }
        merged += static_cast<long>(closed.merges(0).size());
        // Layer 0 reads the same tokens; what it hands on is already another thing.
        EXPECT_EQ(largest_difference(closed.key(0, 0), full.key(0, 0)), 0.0);
        if (largest_difference(closed.key(1, 0), full.key(1, 0)) > 1e-3) ++deeper_differs;
        // The decisions of every layer follow from the states in the trace.
        const Replay own = replay_of(closed, spec, budget);
        for (int layer = 0; layer < tiny_.layers; ++layer) {
          expect_same_decisions(closed, own, layer);
        }
      }
    }
  }
  EXPECT_GT(merged, 1000);
  EXPECT_GT(deeper_differs, static_cast<long>(specs.size()) * 3);  // of 4 runs of each
}

TEST_F(ClosedLoopTest, InFloat16TooDecisionsFollowFromTheTrace) {
  CaptureRequest wanted = request(16);
  wanted.storage = Storage::float16;
  const Trace full = run(wanted);
  wanted.target = folder_ / "closed.h5";
  for (const char* dtype : {"f32", "bf16"}) {
    wanted.dtype = dtype;
    for (const char* spec : {"h2o", "keydiff", "snapkv(8)+critical", "h2o+kvmerger(auto)",
                             "epikv(window=6)", "thinkv(segment=4,reasoning=2,transition=1)"}) {
      SCOPED_TRACE(std::string(spec) + " " + dtype);
      const Trace closed = run(wanted, spec, "15");
      const bool by_layer = !has_trait(parse_policy(spec), &PolicyTraits::reads_pass);
      if (wanted.dtype == "f32" && by_layer)
        expect_same_decisions(closed, replay_of(full, spec, 15), 0);
      const Replay own = replay_of(closed, spec, 15);
      for (int layer = 0; layer < tiny_.layers; ++layer) expect_same_decisions(closed, own, layer);
    }
  }
}

TEST_F(ClosedLoopTest, ABudgetThatHoldsEverythingChangesNothing) {
  for (const int block : {16, 1, kLoopTokens}) {
    const Trace full = run(request(block));
    const auto expected = full.predictions();
    for (const Positions positions : {Positions::original, Positions::compact}) {
      for (const char* spec :
           {"sink", "h2o", "keydiff+caote", "h2o+kvmerger", "snapkv+adakv", "attentionmatching"}) {
        SCOPED_TRACE(std::string(spec) + ", block " + std::to_string(block));
        const Trace closed =
            run(request(block, "closed.h5"), spec, std::to_string(kLoopTokens), positions);
        EXPECT_EQ(closed.run().positions, positions == Positions::compact ? "compact" : "original");
        EXPECT_EQ(closed.predictions()->token_ids, expected->token_ids);
        EXPECT_EQ(closed.predictions()->logprob, expected->logprob);
        for (int layer = 0; layer < tiny_.layers; ++layer) {
          EXPECT_EQ(largest_difference(closed.query(layer, 1), full.query(layer, 1)), 0.0);
          EXPECT_EQ(stored_attention(closed, layer, 1), stored_attention(full, layer, 1));
          EXPECT_THAT(*closed.evicted_at(layer, 0), Each(-1));
          EXPECT_TRUE(closed.merges(layer).empty());
        }
      }
    }
  }
}

TEST_F(ClosedLoopTest, TheModelAttendsToWhatTheTraceSaysItHolds) {
  struct Case {
    const char* spec;
    Positions positions;
    bool scaled, with_log_size, keys_too;
  };
  const NaiveModel naive(folder_.path());
  for (const Case& c :
       {Case{"sink", Positions::original, false, false, false},
        Case{"h2o", Positions::original, false, false, false},
        Case{"snapkv(8)+adakv", Positions::original, false, false, false},
        Case{"sink", Positions::compact, false, false, false},
        Case{"keydiff", Positions::compact, false, false, false},
        Case{"h2o+adakv", Positions::compact, false, false, false},
        Case{"h2o+kvmerger(0.3)", Positions::original, true, false, true},
        Case{"h2o+kvmerger(0.3,value_scale=one)", Positions::compact, false, false, true},
        Case{"h2o+kvmerger(0.3,log_size=1)", Positions::original, false, true, true},
        Case{"h2o+cam(4)", Positions::original, false, false, false},
        Case{"h2o+keep(\"2-3;20\",heads=\"1\")+drop(\"0\")", Positions::original, false, false,
             false},
        Case{"full+drop(\"0;18\",heads=\"0.0;1\")", Positions::original, false, false, false},
        Case{"full+quant(4,group=8,residual=8)", Positions::original, false, false, false},
        Case{"h2o+quant(2,group=8,residual=3)", Positions::original, false, false, false},
        Case{"keydiff+quant(4,group=8,keys=token,values=channel,residual=0)", Positions::compact,
             false, false, false},
        Case{"full+drop(\"0;18\",heads=\"0.0;1\")+quant(2,group=8,residual=5)", Positions::original,
             false, false, false}}) {
    for (const int block : {16, 1}) {
      SCOPED_TRACE(std::string(c.spec) + ", block " + std::to_string(block) +
                   (c.positions == Positions::compact ? ", compact" : ""));
      const Trace trace = run(request(block), c.spec, "12", c.positions);
      const auto result = naive.run(trace.tokens().ids, trace.blocks(),
                                    follow(trace, {c.scaled, c.with_log_size, c.keys_too}),
                                    c.positions == Positions::compact);
      expect_like_naive(trace, result, 2e-4);
    }
  }
}

// Nothing else leaves, so the run of the naive model below is one whose attention masks these
// tokens in these heads from the next step on.
TEST_F(ClosedLoopTest, DroppedTokensAreMaskedInTheirHeadsAlone) {
  const NaiveModel naive(folder_.path());
  const Trace trace = run(request(16), "full+drop(\"0;18\",heads=\"0.0;1\")", "100%");
  for (const auto& [layer, head] : cells(tiny_.layers, tiny_.kv_heads)) {
    const bool named = layer == 1 || (layer == 0 && head == 0);
    std::vector<std::int32_t> expected(trace.tokens().ids.size(), -1);
    if (named) {
      expected[0] = 0;
      expected[18] = 1;
    }
    EXPECT_EQ(*trace.evicted_at(layer, head), expected) << layer << "." << head;
  }
  expect_like_naive(trace, naive.run(trace.tokens().ids, trace.blocks(), follow(trace, {}), false),
                    2e-4);
  const Trace full = run(request(16));
  EXPECT_GT(largest_difference(trace.key(1, 0), full.key(1, 0)), 1e-4) << "the model notices";
}

// YaRN's rotation makes queries and keys longer, once: turning them on to their places does not.
TEST_F(ClosedLoopTest, StretchedKeysAreTurnedByTheirAnglesAlone) {
  tiny_.more =
      R"({"rope_scaling": {"rope_type": "yarn", "factor": 8.0,
          "original_max_position_embeddings": 24}})";
  tiny_.write(folder_.path());
  const NaiveModel naive(folder_.path());
  for (const Positions positions : {Positions::original, Positions::compact}) {
    const bool compact = positions == Positions::compact;
    SCOPED_TRACE(compact ? "compact" : "original");
    const Trace trace = run(request(16), "h2o", "12", positions);
    expect_like_naive(
        trace, naive.run(trace.tokens().ids, trace.blocks(), follow(trace, {}), compact), 2e-4);
  }
}

TEST_F(ClosedLoopTest, CompactPositionsLeaveTheStatesOfLayerZeroAlone) {
  const Trace full = run(request(16));
  // The input of these policies does not depend on positions.
  for (const char* spec : {"sink", "keydiff", "keynorm", "random"}) {
    SCOPED_TRACE(spec);
    const Trace compact = run(request(16, "closed.h5"), spec, "12", Positions::compact);
    const Matrix original = run(request(16, "original.h5"), spec, "12").key(1, 0);
    expect_same_decisions(compact, replay_of(full, spec, 12), 0);
    EXPECT_EQ(largest_difference(compact.key(0, 1), full.key(0, 1)), 0.0);
    EXPECT_GT(largest_difference(compact.key(1, 0), original), 1e-3);
  }
}

TEST_F(ClosedLoopTest, StoredAttentionIsOverWhatEachHeadHeld) {
  CaptureRequest wanted = request(16);
  wanted.attention = AttentionStorage::full;
  const Trace trace = run(wanted, "h2o+adakv", "12");
  EXPECT_TRUE(trace.attention_logsumexp(0, 0).empty());
  for (const auto& [layer, query_head] : cells(tiny_.layers, tiny_.heads)) {
    const Matrix attention = *stored_attention(trace, layer, query_head);
    const auto evicted = *trace.evicted_at(layer, trace.model().head_of(query_head));
    for (std::size_t step = 0; step < trace.blocks().size(); ++step) {
      const Block& block = trace.blocks()[step];
      for (int t = block.first; t < block.end; ++t) {
        EXPECT_NEAR(attention.row(t).sum(), 1.0, 5e-3);
        for (int j = 0; j < kLoopTokens; ++j) {
          const std::int32_t left = evicted[j];
          const bool held = j <= t && (left < 0 || left >= static_cast<int>(step));
          if (!held) {
            ASSERT_EQ(attention(t, j), 0.0F) << t << " " << j;
          }
        }
      }
    }
  }
}

TEST_F(ClosedLoopTest, GeneratesWithTheCutCache) {
  CaptureRequest wanted = request(16);
  wanted.prompt_length.reset();
  wanted.generate = 15;
  const Trace trace = run(wanted, "tova", "25%");
  EXPECT_EQ(trace.run().budget, kLoopTokens / 4);
  EXPECT_EQ(trace.length(), kLoopTokens + 15);
  EXPECT_TRUE(given_tokens(trace).range.empty());
  // The same tokens, given to the model, make the same trace.
  std::vector<std::int32_t> ids = trace.tokens().ids;
  const std::vector<std::int32_t> answer(ids.begin() + kLoopTokens, ids.end());
  CaptureRequest forced = request(16);
  forced.prompt_length = kLoopTokens;
  forced.own_answer = true;
  const auto run_again = [&](const char* name) {
    std::string text;
    for (const std::int32_t id : ids) text += std::to_string(id) + " ";
    write_file(folder_ / "ids.txt", text);
    forced.target = folder_ / name;
    return run(forced, "tova", "25%");
  };
  const Trace again = run_again("forced.h5");
  const GivenTokens same = given_tokens(again);
  EXPECT_EQ(same.range, (TokenRange{kLoopTokens, kLoopTokens + 15}));
  EXPECT_TRUE(same.compared && same.others.empty());
  EXPECT_EQ(same.own_ids, answer);
  EXPECT_EQ(again.predictions()->logprob, trace.predictions()->logprob);
  for (int layer = 0; layer < tiny_.layers; ++layer) {
    EXPECT_EQ(again.evicted_at(layer, 1), trace.evicted_at(layer, 1));
  }
  // Given other words, it still writes its own.
  ids[kLoopTokens + 4] = (ids[kLoopTokens + 4] + 1) % tiny_.vocab_size;
  const GivenTokens other = given_tokens(run_again("other.h5"));
  ASSERT_FALSE(other.others.empty());
  EXPECT_EQ(other.others.front().token, kLoopTokens + 4);
  EXPECT_EQ(other.others.front().id, answer[4]);
  EXPECT_EQ(other.own_ids, answer);
  forced.prompt_length.reset();
  EXPECT_THROW(run(forced, "tova", "25%"), UsageError) << "nothing is given";
}

TEST_F(ClosedLoopTest, ABudgetInBytesIsAsManyEntriesAsInAReplay) {
  const Trace full = run(request(16));
  const auto entries = [&](const std::string& policy, const std::string& budget) {
    const int held = run(request(16), policy, budget).run().budget;
    EXPECT_EQ(held, budget_entries(parse_budget(budget), full, parse_policy(policy))) << policy;
    return held;
  };
  EXPECT_EQ(entries("h2o", "20%bytes"), kLoopPrompt / 5);
  EXPECT_GT(entries("h2o+quant(4,group=8,residual=4)", "20%bytes"), kLoopPrompt / 4);
  EXPECT_EQ(entries("h2o", "1MB"), kLoopTokens);
  EXPECT_THROW(run(request(16), "h2o", "7B"), UsageError);
}

TEST_F(ClosedLoopTest, AReplayOfItsTraceTakesOnlyItsOwnBlocks) {
  const Trace trace = run(request(16), "h2o", "12");
  EXPECT_EQ(replay_blocks(trace, 16, {}).size(), trace.blocks().size());
  EXPECT_THROW(replay_blocks(trace, 8, {}), UsageError);
}

// The policy acts on the context and no more; the replay of the full run decides the same in layer
// 0, and the replay of the run's own trace in every layer.
TEST_F(ClosedLoopTest, ContextOnlyStopsAtTheQuestion) {
  constexpr int kQuestion = 25;
  for (const std::string policy : {"h2o", "snapkv(4)", "keydiff+adakv", "h2o+kvmerger(0.5)",
                                   "h2o+quant(2,group=8,residual=4)"}) {
    for (const int block : {8, kWholePrompt}) {
      SCOPED_TRACE(policy + ", block " + std::to_string(block));
      CaptureRequest wanted = request(block);
      wanted.question = kQuestion;
      const Trace full = run(wanted);
      wanted.target = folder_ / "closed.h5";
      wanted.compression = Compression::context_only;
      const Trace closed = run(wanted, policy, "10");
      EXPECT_EQ(closed.run().compression, Compression::context_only);
      EXPECT_EQ(closed.run().block_size, block == kWholePrompt ? kLoopPrompt : block);
      const auto& blocks = closed.blocks();
      const int last_acting =
          static_cast<int>(std::find_if(blocks.begin(), blocks.end(),
                                        [](const Block& one) { return one.end == kQuestion; }) -
                           blocks.begin());
      ASSERT_LT(last_acting, static_cast<int>(blocks.size())) << "a block crosses the border";
      bool evicted = false;
      for (const auto& [layer, head] : cells(tiny_.layers, closed.model().num_kv_heads)) {
        const auto evicted_at = closed.evicted_at(layer, head);
        ASSERT_TRUE(evicted_at);
        for (const std::int32_t step : *evicted_at) {
          EXPECT_LE(step, last_acting);
          evicted |= step >= 0;
        }
      }
      EXPECT_TRUE(evicted);
      ReplayRequest asked{.policy = parse_policy(policy),
                          .budget = 10,
                          .block = block,
                          .compression = Compression::context_only,
                          .metrics = false};
      expect_same_decisions(closed, replay(full, asked, unwatched), 0);
      const Replay own = replay_of(closed, policy, 10);
      for (int layer = 0; layer < tiny_.layers; ++layer) expect_same_decisions(closed, own, layer);
      EXPECT_THROW(replay_blocks(closed, 0, Compression::regular), UsageError);
    }
  }
}

// Layer 0 does not depend on what is quantised: the model's own cache holds the numbers that the
// cache of the full run's replay holds, after each step.
TEST_F(ClosedLoopTest, TheModelsCacheHoldsTheNumbersOfTheReplay) {
  const c10::InferenceMode no_gradients;
  const ModelConfig config = read_model_config(folder_.path());
  const ModelInfo info = describe_model(config, folder_.path());
  const Transformer model = load_transformer(folder_.path(), config, at::kFloat, at::kCPU);
  const auto matrix_of = [](const at::Tensor& x) {
    const at::Tensor dense = x.contiguous();
    return Matrix(Eigen::Map<const Matrix>(dense.data_ptr<float>(), dense.size(0), dense.size(1)));
  };
  for (const int block : {16, 1}) {
    const Trace full = run(request(block));
    const LayerStates states = load_layer_states(full, 0);
    const std::vector<std::int32_t>& ids = full.tokens().ids;
    for (const std::string spec :
         {"full+quant(4,group=8,residual=6)", "full+quant(2,group=16,keys=token,residual=0)",
          "h2o+quant(4,group=8,residual=4)", "keydiff+adakv+quant(2,group=8,residual=9)",
          "h2o+caote+quant(8,group=8,values=channel,residual=4)"}) {
      SCOPED_TRACE(spec + ", block " + std::to_string(block));
      constexpr int kBudget = 30;
      const PolicySpec policy = parse_policy(spec);
      BlockRunner::Options options;
      options.most_tokens = kLoopTokens;
      BlockRunner runner(model, options);
      CachePolicy acting(model, info, {policy, kBudget}, Storage::float32);
      std::vector<std::vector<Matrix>> keys, values;  // [S][Hk]: after each step
      const Progress progress;
      for (const Block& one : full.blocks()) {
        runner.run(
            std::span(ids).subspan(static_cast<std::size_t>(one.first),
                                   static_cast<std::size_t>(one.size())),
            [&](const LayerStep& step) { acting.cut(step, one.end == kLoopTokens); }, progress);
        keys.emplace_back();
        values.emplace_back();
        for (int head = 0; head < tiny_.kv_heads; ++head) {
          keys.back().push_back(matrix_of(runner.cache(0).keys(head)));
          values.back().push_back(matrix_of(runner.cache(0).values(head)));
        }
      }
      LayerContext context{.model = full.layer_model(0),
                           .attention = full.attention(0),
                           .budget = kBudget,
                           .output_weights = states.output_weights};
      int compared = 0;
      double rounded = 0.0;
      const std::function<void(int, int, const HeadCache&)> on_found = [&](int head, int step,
                                                                           const HeadCache& cache) {
        if (step == 0) return;  // finds nothing that a step left
        const auto before = static_cast<std::size_t>(step - 1);
        const CacheView found = cache.whole();
        const Eigen::Index n = keys[before][head].rows();
        ASSERT_EQ(n + full.blocks()[step].size(), std::ssize(found.tokens));
        EXPECT_LE(largest_difference(keys[before][head], found.keys.topRows(n)), 1e-6);
        EXPECT_LE(largest_difference(values[before][head], found.values.topRows(n)), 1e-6);
        for (Eigen::Index row = 0; row < n; ++row) {
          const auto token = static_cast<Eigen::Index>(found.tokens[row]);
          rounded = std::max(rounded, largest_difference(keys[before][head].row(row),
                                                         states.keys[head].row(token)));
        }
        ++compared;
      };
      LayerReplayInput input{states, full.blocks(), policy, context};
      input.metrics = false;
      input.on_found = &on_found;
      replay_layer(input, unwatched);
      EXPECT_EQ(compared, tiny_.kv_heads * (static_cast<int>(full.blocks().size()) - 1));
      EXPECT_GT(rounded, 1e-3) << "nothing lost bits: nothing is tested";
    }
  }
}

// An evaluation reads the question, and what follows, without letting the policy act; entries that
// grow old lose their bits all the same, as in a run that is captured, and in its replay.
TEST_F(ClosedLoopTest, BitsAreLostAfterThePolicyStoppedToo) {
  const c10::InferenceMode no_gradients;
  constexpr int kQuestion = 25;
  const ModelConfig config = read_model_config(folder_.path());
  const ModelInfo info = describe_model(config, folder_.path());
  const Transformer model = load_transformer(folder_.path(), config, at::kFloat, at::kCPU);
  for (const std::string spec :
       {"full+quant(2,group=8,residual=4)", "h2o+quant(2,group=8,residual=4)",
        "keydiff+quant(8,group=8,residual=0)"}) {
    SCOPED_TRACE(spec);
    CaptureRequest wanted = request(8);
    wanted.question = kQuestion;
    wanted.compression = Compression::context_only;
    const Trace closed = run(wanted, spec, "20");
    const std::vector<std::int32_t>& ids = closed.tokens().ids;
    EvalRun::Options options;
    options.most_tokens = kLoopTokens;
    options.block = 8;
    options.loop = ClosedLoop{parse_policy(spec), 20};
    EvalRun evaluated(model, info, options);
    const Progress progress;
    evaluated.read(std::span(ids).first(kQuestion), true, progress);
    evaluated.read(std::span(ids).subspan(kQuestion, kLoopPrompt - kQuestion), false, progress);
    const auto loss = closed.predictions()->loss;
    for (int token = kLoopPrompt; token < kLoopTokens; ++token) {
      const auto at = static_cast<std::size_t>(token);
      EXPECT_NEAR(-evaluated.logprob(ids[at]), loss[at - 1], 1e-4) << token;
      evaluated.read(std::span(ids).subspan(at, 1), false, progress);
    }
    // The same as the naive model, whose caches go on losing bits.
    expect_like_naive(
        closed, NaiveModel(folder_.path()).run(ids, closed.blocks(), follow(closed, {}), false),
        2e-4);
  }
}

TEST_F(ClosedLoopTest, ThePolicyMustNotNeedTheFuture) {
  EXPECT_THAT(error_of<UsageError>([&] { run(request(16), "oracle", "12"); }),
              HasSubstr("oracle needs the following queries"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "trace.h5"));
}

}  // namespace
}  // namespace kvloupe::test

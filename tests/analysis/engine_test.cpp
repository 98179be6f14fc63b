// The C interface of the engine: shapes, numbers and failures at its border. What it decides and
// measures is compared with the program in tests/python/test_engine.py.

#include "analysis/engine/calls.h"
#include "analysis/engine/given_states.h"
#include "analysis/engine/kvloupe_engine.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "analysis/trace/half.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using testing::ElementsAreArray;

constexpr int kHeads = 2, kQueryHeads = 4, kKeyDim = 8, kValueDim = 6;

kvloupe_engine_layer engine_layer(int budget) {
  kvloupe_engine_layer layer = {};
  layer.size = sizeof layer;
  layer.layers = 1;
  layer.heads = kHeads;
  layer.query_heads = kQueryHeads;
  layer.key_dim = kKeyDim;
  layer.value_dim = kValueDim;
  layer.budget = budget;
  layer.rope_theta = 10000.0;
  layer.attention_scale = 1.0 / std::sqrt(double{kKeyDim});
  return layer;
}

/// [heads, rows, columns], side by side.
struct Numbers {
  Numbers(int heads_, int rows_, int columns_, unsigned seed)
      : heads(heads_), rows(rows_), columns(columns_) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    values.resize(static_cast<std::size_t>(heads) * rows * columns);
    for (float& value : values) value = normal(random);
  }
  kvloupe_engine_states part(int first, int count) const {
    return {values.data() + std::ptrdiff_t{first} * columns,
            KVLOUPE_ENGINE_FLOAT32,
            heads,
            count,
            columns,
            std::int64_t{rows} * columns,
            columns};
  }
  std::vector<MatrixView> views(int first, int count) const {
    std::vector<MatrixView> result;
    for (int head = 0; head < heads; ++head) {
      result.emplace_back(values.data() + (std::ptrdiff_t{head} * rows + first) * columns, count,
                          columns, Eigen::OuterStride<>(columns));
    }
    return result;
  }
  int heads, rows, columns;
  std::vector<float> values;
};

struct Freed {
  void operator()(kvloupe_engine_policy* policy) const { kvloupe_engine_policy_destroy(policy); }
};
using PolicyPointer = std::unique_ptr<kvloupe_engine_policy, Freed>;

PolicyPointer made(const char* spec, const kvloupe_engine_layer& layer) {
  kvloupe_engine_policy* policy = nullptr;
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  EXPECT_EQ(kvloupe_engine_policy_create(spec, &layer, &policy, error.data()), KVLOUPE_ENGINE_DONE)
      << error.data();
  return PolicyPointer(policy);
}

TEST(Engine, DecidesAndMergesAsTheCachesOfARunningModel) {
  const Numbers queries(kQueryHeads, 40, kKeyDim, 1), keys(kHeads, 40, kKeyDim, 2),
      values(kHeads, 40, kValueDim, 3);
  int rounded = 0;
  for (const char* spec : {"h2o", "keydiff", "h2o+kvmerger", "h2o+cam", "tova+recent(2)",
                           "h2o+quant(group=8,residual=1)", "full+quant(2,group=8,residual=3)"}) {
    for (const bool compact : {false, true}) {
      for (const int window : {0, 48, 14}) {
        if (compact && window == 14) continue;
        kvloupe_engine_layer layer = engine_layer(9);
        layer.sliding_window = window;
        layer.compact = compact ? 1 : 0;
        const PolicyPointer policy = made(spec, layer);
        ASSERT_NE(policy, nullptr);
        LayerContext context;
        context.model.num_layers = 1;
        context.model.num_heads = kQueryHeads;
        context.model.num_kv_heads = kHeads;
        context.model.head_dim = kKeyDim;
        context.model.value_dim = kValueDim;
        context.model.sliding_window = window;
        context.model.rope_scaling = "null";
        context.attention.scale = layer.attention_scale;
        context.budget = 9;
        EvictingLayer other(parse_policy(spec), context, {},
                            compact ? Positions::compact : Positions::original);
        for (int step = 0, first = 0; first < 40; ++step) {
          const int end = std::min(first + 7, 40);
          const bool last = end == 40;
          kvloupe_engine_block block = {sizeof block,
                                        first,
                                        end,
                                        last ? 1 : 0,
                                        1,
                                        queries.part(first, end - first),
                                        keys.part(first, end - first),
                                        values.part(first, end - first)};
          const kvloupe_engine_retained* retained = nullptr;
          std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
          ASSERT_EQ(kvloupe_engine_policy_step(policy.get(), &block, &retained, error.data()),
                    KVLOUPE_ENGINE_DONE)
              << error.data();
          const std::vector<HeadDecision> decisions = other.step({step,
                                                                  {first, end},
                                                                  queries.views(first, end - first),
                                                                  keys.views(first, end - first),
                                                                  values.views(first, end - first),
                                                                  nullptr,
                                                                  last,
                                                                  true});
          for (int head = 0; head < kHeads; ++head) {
            SCOPED_TRACE(std::string(spec) + ", window " + std::to_string(window) + ", step " +
                         std::to_string(step));
            const HeadDecision& decision = decisions[head];
            const int hidden = other.head(head).hidden();
            EXPECT_EQ(retained[head].left_window, hidden);
            EXPECT_EQ(retained[head].entries,
                      hidden + static_cast<int>(other.head(head).tokens().size()));
            std::vector<std::int32_t> rows = decision.kept;
            for (std::int32_t& row : rows) row += hidden;
            EXPECT_THAT(std::vector<std::int32_t>(retained[head].kept,
                                                  retained[head].kept + retained[head].kept_count),
                        ElementsAreArray(rows));
            const RoundedRows few_bits = other.carry_out(head, decision);
            const CacheView view = other.head(head).view();
            const auto expect_rounded = [&](const kvloupe_engine_rounded& told, const Block& block,
                                            const MatrixView& held) {
              EXPECT_EQ(told.count, block.size());
              EXPECT_EQ(told.first, block.first);
              EXPECT_EQ(told.numbers != nullptr, told.count > 0);
              for (int i = 0; i < told.count * static_cast<int>(held.cols()); ++i) {
                EXPECT_EQ(told.numbers[i], held(told.first + i / held.cols(), i % held.cols()));
              }
              rounded += told.count;
            };
            expect_rounded(retained[head].keys, few_bits.keys, view.keys);
            expect_rounded(retained[head].values, few_bits.values, view.values);
            EXPECT_THAT(
                std::vector<std::int32_t>(retained[head].tokens,
                                          retained[head].tokens + retained[head].kept_count),
                ElementsAreArray(view.tokens));
            ASSERT_EQ(retained[head].merge_count, static_cast<int>(decision.merges.size()));
            for (int i = 0; i < retained[head].merge_count; ++i) {
              const kvloupe_engine_merge& merge = retained[head].merges[i];
              const Merge& expected = decision.merges[i];
              EXPECT_EQ(merge.into, expected.into + hidden);
              EXPECT_EQ(merge.log_size, expected.log_size.value_or(0.0F));
              EXPECT_EQ(merge.key_changed != 0, !expected.key.empty());
              const auto row = std::find(rows.begin(), rows.end(), merge.into) - rows.begin();
              ASSERT_LT(row, std::ssize(rows));
              for (int c = 0; c < kValueDim; ++c) EXPECT_EQ(merge.value[c], view.values(row, c));
              for (int c = 0; merge.key != nullptr && c < kKeyDim; ++c) {
                EXPECT_EQ(merge.key[c], view.keys(row, c));
              }
              for (int j = 0; j < merge.members; ++j) {
                EXPECT_EQ(merge.from[j], expected.from[j] + hidden);
                EXPECT_EQ(merge.weights[j], expected.weights[j]);
              }
            }
          }
          first = end;
        }
      }
    }
  }
  EXPECT_GT(rounded, 100);
}

// Of latents, whose values are a part of their keys.
TEST(Engine, AValueThatIsAPartOfItsKeyLosesBitsWithIt) {
  const Numbers keys(kHeads, 30, kKeyDim, 2);
  kvloupe_engine_layer layer = engine_layer(30);
  layer.values_in_keys = 1;
  const PolicyPointer policy = made("full+quant(2,group=8,residual=0)", layer);
  kvloupe_engine_states values = keys.part(0, 30);
  values.columns = kValueDim;
  const kvloupe_engine_block block = {sizeof block, 0, 30, 0, 1, {}, keys.part(0, 30), values};
  const kvloupe_engine_retained* retained = nullptr;
  ASSERT_EQ(kvloupe_engine_policy_step(policy.get(), &block, &retained, nullptr),
            KVLOUPE_ENGINE_DONE);
  for (int head = 0; head < kHeads; ++head) {
    ASSERT_EQ(retained[head].keys.count, 24);  // three groups
    ASSERT_EQ(retained[head].values.count, 24);
    for (const auto& [row, c] : test::cells(24, kValueDim)) {
      EXPECT_EQ(retained[head].values.numbers[row * kValueDim + c],
                retained[head].keys.numbers[row * kKeyDim + c]);
    }
  }
  layer.value_dim = kKeyDim + 1;
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  kvloupe_engine_policy* none = nullptr;
  EXPECT_EQ(kvloupe_engine_policy_create("h2o", &layer, &none, error.data()),
            KVLOUPE_ENGINE_MISUSED);
  EXPECT_THAT(error.data(), HasSubstr("value_dim is 9"));
}

TEST(Engine, ReadsNumbersOf16BitsExactly) {
  std::vector<std::uint16_t> halves, upper;
  std::vector<float> of_halves, of_upper;
  for (std::uint32_t bits = 0; bits < 0x10000U; bits += 7) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = float_from_half(half);
    std::uint32_t shifted = bits << 16U;
    float brain = 0.0F;
    std::memcpy(&brain, &shifted, sizeof brain);
    if (std::isfinite(wide)) halves.push_back(half), of_halves.push_back(wide);
    if (std::isfinite(brain)) upper.push_back(half), of_upper.push_back(brain);
  }
  for (const bool brain : {false, true}) {
    const auto& bits = brain ? upper : halves;
    const auto& wide = brain ? of_upper : of_halves;
    const std::int64_t columns = 4, rows = static_cast<std::int64_t>(bits.size()) / 8;
    const kvloupe_engine_states states = {
        bits.data(), brain ? KVLOUPE_ENGINE_BFLOAT16 : KVLOUPE_ENGINE_FLOAT16,
        2,           rows,
        columns,     rows * columns,
        columns};
    engine::GivenStates given;
    const std::vector<MatrixView> read = given.read(states, {2, rows, columns}, "keys", 0);
    for (std::int64_t i = 0; i < 2 * rows * columns; ++i) {
      const auto row = i % (rows * columns) / columns;
      ASSERT_EQ(read[i / (rows * columns)](row, i % columns), wide[i]);
    }
  }
}

TEST(Engine, RefusesStatesBeforeItReadsThem) {
  const Numbers keys(kHeads, 5, kKeyDim, 4);
  const auto refused = [&](kvloupe_engine_states states, const char* what) {
    const PolicyPointer policy = made("keydiff", engine_layer(3));
    kvloupe_engine_block block = {sizeof block, 0, 5, 0, 1, {}, states, {}};
    const kvloupe_engine_retained* retained = nullptr;
    std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
    EXPECT_NE(kvloupe_engine_policy_step(policy.get(), &block, &retained, error.data()),
              KVLOUPE_ENGINE_DONE);
    EXPECT_THAT(error.data(), HasSubstr(what));
    EXPECT_EQ(retained, nullptr);
  };
  kvloupe_engine_states states = keys.part(0, 5);
  refused({}, "keys: is NULL");
  states.type = 3;
  refused(states, "type 3");
  for (auto [heads, rows, columns] :
       {std::array<int, 3>{3, 5, 8}, {2, 6, 8}, {2, 5, 9}, {-1, 5, 8}}) {
    states = keys.part(0, 5);
    states.heads = heads;
    states.rows = rows;
    states.columns = columns;
    refused(states, "give [2, 5, 8]");
  }
  for (const std::int64_t stride : {std::int64_t{7}, std::int64_t{-8}, std::int64_t{1} << 60}) {
    states = keys.part(0, 5);
    states.row_stride = stride;
    refused(states, "strides");
  }
  states = keys.part(0, 5);
  states.head_stride = -40;
  refused(states, "strides");
  Numbers wrong = keys;
  wrong.values[kKeyDim * 7] = std::numeric_limits<float>::infinity();
  refused(wrong.part(0, 5), "keys of head 1, row 2: has a number that is not finite");
}

TEST(Engine, RefusesNullAndStructsOfOtherSizes) {
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  kvloupe_engine_policy* policy = nullptr;
  kvloupe_engine_layer layer = engine_layer(3);
  EXPECT_EQ(kvloupe_engine_policy_create(nullptr, &layer, &policy, error.data()),
            KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(kvloupe_engine_policy_create("h2o", nullptr, &policy, nullptr), KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(kvloupe_engine_policy_create("h2o", &layer, nullptr, error.data()),
            KVLOUPE_ENGINE_MISUSED);
  layer.size -= 8;
  EXPECT_EQ(kvloupe_engine_policy_create("h2o", &layer, &policy, error.data()),
            KVLOUPE_ENGINE_MISUSED);
  EXPECT_THAT(error.data(), HasSubstr("kvloupe_engine_layer: has the size"));
  EXPECT_EQ(policy, nullptr);
  EXPECT_EQ(kvloupe_engine_policy_step(nullptr, nullptr, nullptr, error.data()),
            KVLOUPE_ENGINE_MISUSED);
  kvloupe_engine_trace* trace = nullptr;
  EXPECT_EQ(kvloupe_engine_trace_open("/none.h5", &trace, error.data()), KVLOUPE_ENGINE_FAILED);
  EXPECT_THAT(error.data(), HasSubstr("/none.h5: "));
  EXPECT_EQ(kvloupe_engine_trace_open(nullptr, &trace, error.data()), KVLOUPE_ENGINE_MISUSED);
  kvloupe_engine_policy_destroy(nullptr);
  kvloupe_engine_trace_close(nullptr);
  int32_t entries = 0;
  EXPECT_EQ(kvloupe_engine_budget("25%", 40, &entries, error.data()), KVLOUPE_ENGINE_DONE);
  EXPECT_EQ(entries, 10);
  EXPECT_EQ(kvloupe_engine_check_reads_only("h2o", error.data()), KVLOUPE_ENGINE_DONE);
  EXPECT_EQ(kvloupe_engine_check_reads_only("h2o+every(8)", error.data()), KVLOUPE_ENGINE_MISUSED);
  EXPECT_THAT(error.data(), HasSubstr("every: counts generated tokens"));
  EXPECT_EQ(kvloupe_engine_budget("-3", 40, &entries, error.data()), KVLOUPE_ENGINE_MISUSED);
}

TEST(Engine, AnswersInJson) {
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  kvloupe_engine_text* text = nullptr;
  const auto ask = [&](const char* function, const char* path, std::string_view given) {
    return kvloupe_engine_ask(function, path, given.data(), std::ssize(given), &text, error.data());
  };
  ASSERT_EQ(ask("first_number", nullptr, R"("caf\u00e9 \u0000 47")"), KVLOUPE_ENGINE_DONE);
  int64_t bytes = 0;
  const char* const data = kvloupe_engine_text_data(text, &bytes);
  EXPECT_EQ(std::string_view(data, static_cast<std::size_t>(bytes)), R"("47")");
  kvloupe_engine_text_destroy(text);
  EXPECT_EQ(ask("none", nullptr, "1"), KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(ask("read_text", "/none.txt", "null"), KVLOUPE_ENGINE_FAILED);
  EXPECT_THAT(error.data(), HasSubstr("/none.txt: this file does not exist"));
  for (const char* given : {"{", "[]", "{}", "3", ""}) {
    for (const char* function : {"has_answer", "found_share", "rules_followed", "answer_f1",
                                 "parse_prompt", "read_prompt"})
      EXPECT_NE(ask(function, "/none.jsonl", given), KVLOUPE_ENGINE_DONE) << function << given;
  }
  EXPECT_EQ(kvloupe_engine_ask("first_number", nullptr, "1", -1, &text, error.data()),
            KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(ask(nullptr, nullptr, "1"), KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(text, nullptr);
}

TEST(Engine, AWriterLeavesAWholeFileOrNothing) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "t.h5";
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  const std::array<float, 12> numbers = {1.0F, 70000.0F};
  const std::array<int64_t, 3> shape = {2, 3, 2};
  for (const bool finished : {false, true}) {
    kvloupe_engine_writer* writer = nullptr;
    ASSERT_EQ(kvloupe_engine_writer_create(path.c_str(), 3, &writer, error.data()), 0) << &error[0];
    const auto add = [&](int axis, int first) {
      return kvloupe_engine_writer_add(writer, "/layers/0/key", KVLOUPE_ENGINE_FLOAT16,
                                       shape.data(), 3, axis, first, 3, numbers.data(),
                                       error.data());
    };
    EXPECT_EQ(add(1, 0), KVLOUPE_ENGINE_DONE) << &error[0];
    EXPECT_EQ(add(3, 3), KVLOUPE_ENGINE_FAILED);
    EXPECT_EQ(add(1, 3), KVLOUPE_ENGINE_FAILED);
    EXPECT_THAT(kvloupe_engine_writer_notes(writer),
                HasSubstr("/layers/0/key is stored as float32"));
    std::array<float, 6> head = {};
    EXPECT_EQ(kvloupe_engine_writer_read(writer, "/layers/0/key", 0, 3, head.data(), nullptr), 0);
    EXPECT_EQ(head[1], 70000.0F);
    EXPECT_EQ(kvloupe_engine_writer_array(writer, "/tokens/ids", 2, shape.data(), 3, numbers.data(),
                                          error.data()),
              KVLOUPE_ENGINE_FAILED);
    if (finished) {
      EXPECT_EQ(kvloupe_engine_writer_finish(writer, 3, R"({"attributes": {"/run": {"x": 1}}})",
                                             error.data()),
                KVLOUPE_ENGINE_DONE)
          << &error[0];
    }
    kvloupe_engine_writer_destroy(writer);
    EXPECT_EQ(std::filesystem::is_empty(folder.path()), !finished);
  }
  EXPECT_EQ(kvloupe_engine_writer_finish(nullptr, 3, "{}", nullptr), KVLOUPE_ENGINE_MISUSED);
}

TEST(Engine, AStepThatDoesNotFollowChangesNothing) {
  const Numbers keys(kHeads, 20, kKeyDim, 5);
  const PolicyPointer policy = made("keydiff", engine_layer(3));
  const auto step = [&](int first, int end) {
    kvloupe_engine_block block = {
        sizeof block, first, end, 0, 1, {}, keys.part(0, end - first), {}};
    const kvloupe_engine_retained* retained = nullptr;
    return kvloupe_engine_policy_step(policy.get(), &block, &retained, nullptr);
  };
  EXPECT_EQ(step(1, 4), KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(step(0, 0), KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(step(0, 4), KVLOUPE_ENGINE_DONE);
  EXPECT_EQ(step(0, 4), KVLOUPE_ENGINE_MISUSED);
  EXPECT_EQ(step(4, 9), KVLOUPE_ENGINE_DONE);
}

TEST(Engine, ALineThatIsTooLongEndsAfterAWholeCharacter) {
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  std::string text;
  while (text.size() < 3 * error.size()) text += "\xE2\x82\xAC\n";  // three bytes and a line end
  engine::say(error.data(), text);
  const std::string said = error.data();
  EXPECT_LT(said.size(), error.size());
  EXPECT_GT(said.size(), error.size() - 8);
  EXPECT_EQ(said.find('\n'), std::string::npos);
  ASSERT_TRUE(said.ends_with("..."));
  const std::string whole = said.substr(0, said.size() - 3);
  EXPECT_TRUE(whole.ends_with("\xE2\x82\xAC") || whole.ends_with(" "))
      << whole.substr(whole.size() - 4);
}

TEST(Engine, AnUnknownExceptionIsAFailureToo) {
  std::array<char, KVLOUPE_ENGINE_ERROR_BYTES> error = {};
  EXPECT_EQ(engine::guarded(error.data(), [] { throw 3; }), KVLOUPE_ENGINE_FAILED);
  EXPECT_NE(error[0], '\0');
  EXPECT_EQ(engine::guarded(error.data(), [] { throw Cancelled(); }), KVLOUPE_ENGINE_CANCELLED);
  EXPECT_EQ(engine::guarded(error.data(), [] { throw std::bad_alloc(); }), KVLOUPE_ENGINE_FAILED);
  EXPECT_THAT(error.data(), HasSubstr("out of memory"));
  EXPECT_EQ(engine::guarded(error.data(), [] {}), KVLOUPE_ENGINE_DONE);
  EXPECT_EQ(error[0], '\0');
}

}  // namespace
}  // namespace kvloupe

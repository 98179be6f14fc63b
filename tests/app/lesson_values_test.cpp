// Every value a lesson's numbers are made of, beside a second path to it.

#include "analysis/replay/measure/measure_catalog.h"
#include "app/lesson/answer.h"
#include "app/lesson/page_view.h"
#include "app/lesson/values.h"
#include "app/session/view_catalog.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::lesson {
namespace {

using ::testing::AnyOf;

struct LessonValues : ::testing::Test {
  void SetUp() override {
    options.layers = 2;
    options.query_heads = 4;
    options.heads = 2;
    options.attention = false;
    states = test::write_synthetic_trace(folder / "t.h5", options);
    traces.trace = std::make_shared<const Trace>(folder / "t.h5");
    workspace = window::default_state();
    workspace.policy_a = parse_policy("tova");
    workspace.policy_b = parse_policy("h2o");
    workspace.budget = parse_budget("25%");
    workspace.selection.layer = 1;
    workspace.selection.head = 1;
  }
  double number(const std::string& expression) {
    const Value value = evaluate(Expression(expression), state(), test::unwatched);
    EXPECT_TRUE(std::holds_alternative<double>(value)) << expression;
    return std::get<double>(value);
  }
  std::string text(const std::string& expression) {
    return std::get<std::string>(evaluate(Expression(expression), state(), test::unwatched));
  }
  LessonState state() { return lesson_state(traces, workspace, playing); }

  /// Softmax of every query over what it sees, in double. [T][query + 1]
  std::vector<std::vector<double>> attention(int layer, int query_head) const {
    return naive::full_attention(states.query[layer][query_head],
                                 states.key[layer][states.model.head_of(query_head)],
                                 states.run.attention_scale, 0);
  }
  /// Mean over the queries from 1 on of what they give token 0.
  double rest(int layer, int query_head) const {
    double sum = 0.0;
    const int length = states.run.tokens();
    const auto weights = attention(layer, query_head);
    for (int query = 1; query < length; ++query) sum += weights[query][0];
    return sum / (length - 1);
  }
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  }
  double value_ratio(int layer, int head) const {
    const Matrix& v = states.value[layer][head];
    std::vector<double> norms;
    for (Eigen::Index i = 0; i < v.rows(); ++i) norms.push_back(v.row(i).cast<double>().norm());
    const double first = norms.front();
    return first / median(norms);
  }

  test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  test::SyntheticStates states;
  LessonTraces traces;
  window::WorkspaceState workspace;
  bool playing = false;
};

TEST_F(LessonValues, OfTheTraceAreItsSizes) {
  EXPECT_EQ(number("tokens"), 104);
  EXPECT_EQ(number("prompt_tokens"), 96);
  EXPECT_EQ(number("generated"), 8);
  EXPECT_EQ(number("blocks"), 3);
  EXPECT_EQ(number("block_size"), 32);
  EXPECT_EQ(number("layers"), 2);
  EXPECT_EQ(number("heads"), 2);
  EXPECT_EQ(number("query_heads"), 4);
  EXPECT_EQ(number("head_dim"), 16);
  EXPECT_EQ(number("bytes_per_token"), 2 * 2 * 2 * 2 * 16);  // keys and values, L, Hk, 16 bits, d
  EXPECT_EQ(number("cache_bytes"), 104 * number("bytes_per_token"));
  EXPECT_EQ(text("token_text(0)"), "<s>");
  EXPECT_EQ(text("token_text(2 + 2)"), " w4");
  EXPECT_EQ(text("token_text(104)"), "");
  EXPECT_EQ(number("segment_first(\"context\")"), 0);
  EXPECT_EQ(number("segment_last(\"context\")"), 95);
  EXPECT_EQ(number("segment_first(\"answer\")"), 96);
  EXPECT_TRUE(std::isnan(number("segment_first(\"needle\")")));
  EXPECT_EQ(text("model"), traces.trace->model().name);
  EXPECT_EQ(text("needle_number"), "");
  EXPECT_TRUE(std::isnan(number("needle_token")));
}

TEST_F(LessonValues, OfWhatIsWrittenAreThoseOfTheTokens) {
  options.generated = 40;
  test::write_synthetic_trace(folder / "full.h5", options);
  fs::copy_file(folder / "full.h5", folder / "run.h5");
  test::make_loop(folder / "run.h5", 106, 3);
  traces.trace = std::make_shared<const Trace>(folder / "full.h5");
  EXPECT_EQ(text("written").rfind("w96 w97", 0), 0U) << text("written");
  EXPECT_EQ(number("loop_share"), 0.0);
  EXPECT_TRUE(std::isnan(number("closed_loop_share(0)")));
  EXPECT_TRUE(std::isnan(number("closed_same(0)")));
  EXPECT_EQ(text("closed_written(0)"), "");
  fs::copy_file(folder / "run.h5", folder / "given.h5");
  test::write_given(folder / "given.h5", 40);
  traces.closed = {std::make_shared<const Trace>(folder / "full.h5"),
                   std::make_shared<const Trace>(folder / "run.h5"),
                   std::make_shared<const Trace>(folder / "given.h5")};
  EXPECT_TRUE(std::isnan(number("closed_same(2)"))) << "not its own words";
  EXPECT_EQ(number("closed_same(0)"), 40);
  EXPECT_EQ(number("closed_loop_share(0)"), 0.0);
  EXPECT_TRUE(std::isnan(number("closed_loop_begins(0)")));
  EXPECT_EQ(text("closed_loop_text(0)"), "");
  // The last three of the first ten tokens stand eleven times, or a token less where the token
  // before is the same by chance.
  const std::vector<std::int32_t>& own = traces.closed[1]->tokens().ids;
  int same = 0;
  while (traces.trace->tokens().ids[96 + same] == own[96 + same]) ++same;
  EXPECT_EQ(number("closed_same(1)"), same);
  EXPECT_GE(same, 13);
  EXPECT_EQ(text("closed_written(0)"), text("written")) << "no token differs";
  EXPECT_EQ(text("closed_written(1)").rfind("w" + std::to_string(96 + same), 0), 0U);
  EXPECT_EQ(number("closed_loop_begins(1)"), 10);
  EXPECT_NEAR(number("closed_loop_share(1)"), 30.0 / 40.0, 1e-12);
  EXPECT_EQ(text("closed_loop_text(1)"), "w106 w107 w108é");
}

TEST_F(LessonValues, OfTheSinksAreThoseOfPlainLoops) {
  int count = 0, layer = 0, query_head = 0;
  double strongest = -1.0;
  std::vector<double> ratios;
  for (const auto& [l, h] : test::cells(2, 4)) {
    const double strength = rest(l, h);
    EXPECT_NEAR(number("rest(" + std::to_string(l) + ", " + std::to_string(h) + ")"), strength,
                1e-5);
    if (strength > 0.3) {
      ++count;
      ratios.push_back(value_ratio(l, states.model.head_of(h)));
    }
    if (strength <= strongest) continue;
    strongest = strength;
    layer = l;
    query_head = h;
  }
  ASSERT_GT(count, 0) << "the made-up trace has a sink";
  EXPECT_NEAR(number("sinks.share"), count / 8.0, 1e-12);
  EXPECT_EQ(number("sinks.count"), count);
  EXPECT_NEAR(number("sinks.strength"), strongest, 1e-5);
  EXPECT_EQ(number("sinks.layer"), layer);
  EXPECT_EQ(number("sinks.query_head"), query_head);
  EXPECT_EQ(number("sinks.head"), query_head / 2);
  EXPECT_NEAR(number("sinks.here"),
              (number("rest(layer, 2 * head)") + number("rest(layer, 2 * head + 1)")) / 2, 1e-6);
  EXPECT_NEAR(number("sinks.value_ratio"), value_ratio(layer, query_head / 2), 1e-5);
  EXPECT_NEAR(number("sinks.median_value_ratio"), median(ratios), 1e-5);
  EXPECT_TRUE(std::isnan(number("rest(2, 0)")));
  EXPECT_TRUE(std::isnan(number("rest(0, 0.5)")));
}

TEST_F(LessonValues, OfTheStateAreWhatIsShown) {
  EXPECT_EQ(number("layer"), 1);
  EXPECT_EQ(number("head"), 1);
  EXPECT_EQ(number("query_head"), -1);
  EXPECT_EQ(number("token"), -1);
  EXPECT_EQ(number("step"), 2);  // the last of the prompt
  EXPECT_EQ(number("steps"), 11);
  workspace.selection.step = 7;
  EXPECT_EQ(number("step"), 7);
  EXPECT_EQ(number("budget"), 0.25);
  EXPECT_EQ(number("budget_entries"), 24);
  workspace.budget = parse_budget("12");
  EXPECT_EQ(number("budget"), 12.0 / 96.0);
  workspace.budget = parse_budget("10%");  // 9 entries, but 10 % all the same
  EXPECT_EQ(number("budget < 0.1"), 0);
  EXPECT_EQ(number("budget_entries"), 9);
  EXPECT_EQ(number("block"), 32);
  workspace.block = 16;
  EXPECT_EQ(number("block"), 16);
  EXPECT_EQ(number("steps"), 14);
  EXPECT_EQ(number("first_token"), 0);
  EXPECT_EQ(number("last_token"), 103);
  workspace.selection.first_token = 8;
  workspace.selection.last_token = 40;
  EXPECT_EQ(number("last_token - first_token"), 32);

  workspace.policy_a = parse_policy("h2o+critical+recent(10%)");
  EXPECT_EQ(number("score_is(\"h2o\")"), 1);
  EXPECT_EQ(number("score_is(\"tova\")"), 0);
  EXPECT_EQ(number("policy_has(\"critical\")"), 1);
  EXPECT_EQ(number("policy_has(\"h2o\")"), 1);
  EXPECT_EQ(number("policy_has(\"caote\")"), 0);
  EXPECT_EQ(text("policy_a"), "h2o+recent+critical");
  EXPECT_EQ(number("policy_b_on"), 0);
  EXPECT_EQ(number("score_b_is(\"h2o\")"), 0) << "B is off";
  workspace.policy_b_on = true;
  EXPECT_EQ(number("score_b_is(\"h2o\")"), 1);
  EXPECT_EQ(number("policy_b_has(\"h2o\")"), 1);
  EXPECT_EQ(text("policy_b"), "h2o");

  workspace.tiles[0] = {.view = "sinks"};
  workspace.tiles[1] = {.view = "pca"};
  workspace.tile_count = 1;
  EXPECT_EQ(number("viewing(\"sinks\")"), 1);
  EXPECT_EQ(number("viewing(\"pca\")"), 0) << "not in sight";
  EXPECT_EQ(number("choice_is(\"sinks\", \"show\", \"heads\")"), 1) << "the default";
  EXPECT_EQ(number("choice_is(\"sinks\", \"show\", \"norms\")"), 0);
  workspace.tiles[0].choices["show"] = "norms";
  EXPECT_EQ(number("choice_is(\"sinks\", \"show\", \"norms\")"), 1);
  EXPECT_EQ(number("playing"), 0);
  playing = true;
  EXPECT_EQ(number("playing"), 1);
}

TEST_F(LessonValues, OfTheReplaysAreThoseOfTheNaiveReplay) {
  const auto last = static_cast<std::size_t>(2);
  const std::vector<kvloupe::Block> blocks = make_blocks(96, 8, 32);
  for (const auto& [spec, letter] : {std::pair{"tova", ""}, {"h2o", "_b"}}) {
    workspace.policy_b_on = true;
    double mass_of_all = 0.0, kept_of_all = 0.0;
    for (int layer = 0; layer < 2; ++layer) {
      const LayerStates layer_states = load_layer_states(*traces.trace, layer);
      naive::NaiveReplay replay(layer_states, states.model, states.run.attention_scale, layer,
                                parse_policy(spec), 24);
      std::vector<naive::HeadStep> step;
      for (std::size_t i = 0; i <= last; ++i) step = replay.step(blocks[i]);
      for (int head = 0; head < 2; ++head) {
        const std::set<int>& retained = step[head].retained;
        double mass = 0.0;
        for (int g = 0; g < 2; ++g)
          mass += replay.measure(2 * head + g, 95, retained).retained_mass / 2;
        mass_of_all += mass / 4;
        kept_of_all += retained.contains(0) ? 0.25 : 0.0;
        if (layer != 1 || head != 1) continue;
        const std::string b = letter;
        EXPECT_NEAR(number("measure" + b + "(\"retained_mass\")"), mass, 1e-4);
        EXPECT_NEAR(number("measure" + b + "(\"retained mass\")"), mass, 1e-4);
        EXPECT_EQ(number("entries" + b), static_cast<double>(retained.size()));
        for (const int token : {0, 1, 17, 50, 80, 95}) {
          EXPECT_EQ(number("kept" + b + "(" + std::to_string(token) + ")"),
                    retained.contains(token) ? 1.0 : 0.0)
              << spec << " " << token;
        }
        EXPECT_TRUE(std::isnan(number("kept" + b + "(96)"))) << "not read yet at this step";
        if (b.empty()) {
          EXPECT_NEAR(number("segment_kept(\"context\")"),
                      static_cast<double>(retained.size()) / 96, 1e-12);
          workspace.selection.query_head = 3;
          EXPECT_NEAR(number("measure(\"retained_mass\")"),
                      replay.measure(3, 95, retained).retained_mass, 1e-4);
          EXPECT_NEAR(number("measure(\"perturbation_l1\")"),
                      replay.measure(3, 95, retained).perturbation_l1, 1e-3);
          workspace.selection.query_head = -1;
        }
      }
    }
    EXPECT_NEAR(number(std::string("mean_measure") + letter + "(\"retained_mass\")"), mass_of_all,
                1e-4);
    EXPECT_NEAR(number(std::string("kept_share") + letter + "(0)"), kept_of_all, 1e-12);
  }
  EXPECT_TRUE(std::isnan(number("needle_kept")));
  EXPECT_TRUE(std::isnan(number("needle_kept_b")));
  workspace.policy_b_on = false;
  for (const char* of_b : {"measure_b(\"retained_mass\")", "mean_measure_b(\"retained_mass\")",
                           "kept_b(0)", "kept_share_b(0)", "entries_b"}) {
    EXPECT_TRUE(std::isnan(number(of_b))) << of_b;
  }
}

TEST_F(LessonValues, MeasuresOfEveryScopeHaveAValue) {
  for (const Measure& measure : all_measures()) {
    const PolicySpec policy = workspace.policy_a;
    const Value value =
        evaluate(Expression("measure(\"" + measure.info->name + "\")"), state(), test::unwatched);
    ASSERT_TRUE(std::holds_alternative<double>(value));
    if (applies(measure, policy) && measure.info->name == "key_norm") {
      EXPECT_GT(std::get<double>(value), 0.0);
    }
  }
  // One that is computed only on request, and one of a whole replay, by the replay itself.
  ReplayRequest request{
      .policy = parse_policy("tova"), .budget = 24, .layers = {1}, .measures = {"output_error"}};
  const Replay replayed = replay(*traces.trace, request, test::unwatched);
  const HeadReplay& head = *replayed.find(1, 1);
  EXPECT_EQ(number("measure(\"output_error\")"), measure_of(require_measure("output_error"), head));
  EXPECT_EQ(number("measure(\"retained_share\")"),
            measure_of(require_measure("retained_share"), head));
}

TEST_F(LessonValues, OfAttentionAndKeysAreThoseOfPlainLoops) {
  workspace.selection.query_head = 2;
  EXPECT_NEAR(number("attention(60, 0)"), attention(1, 2)[60][0], 1e-5);
  EXPECT_NEAR(number("attention(60, 60)"), attention(1, 2)[60][60], 1e-5);
  EXPECT_EQ(number("attention(60, 61)"), 0.0) << "what comes later is not seen";
  EXPECT_TRUE(std::isnan(number("attention(60, 104)")));
  workspace.selection.query_head = -1;
  EXPECT_NEAR(number("attention(60, 3)"), (attention(1, 2)[60][3] + attention(1, 3)[60][3]) / 2,
              1e-5);

  // Without token 5, as the formula has it: the softmax over the others.
  double error = 0.0;
  for (int g = 2; g < 4; ++g) {
    const Matrix& v = states.value[1][1];
    const auto weights = attention(1, g);
    for (int query = 6; query < 104; ++query) {
      const std::vector<double>& a = weights[query];
      Eigen::RowVectorXd all = Eigen::RowVectorXd::Zero(16), others = Eigen::RowVectorXd::Zero(16);
      for (int key = 0; key <= query; ++key) {
        const Eigen::RowVectorXd part = a[key] * v.row(key).cast<double>();
        all += part;
        if (key != 5) others += part;
      }
      others /= 1.0 - a[5];
      error += (others - all).norm() / all.norm() / (2.0 * 98.0);
    }
  }
  EXPECT_NEAR(number("error_without(5)"), error, 1e-4 * error);
  EXPECT_TRUE(std::isnan(number("error_without(103)"))) << "nobody comes later";

  const Matrix& keys = states.key[1][1];
  Eigen::RowVectorXd anchor = Eigen::RowVectorXd::Zero(16);
  for (Eigen::Index i = 0; i < keys.rows(); ++i) anchor += keys.row(i).cast<double>().normalized();
  EXPECT_NEAR(number("anchor_cosine(9)"),
              keys.row(9).cast<double>().normalized().dot(anchor.normalized()), 1e-5);
}

TEST_F(LessonValues, OfReadersAreThoseOfPlainLoops) {
  // The queries that write the answer and come after the context; the last token's writes nothing.
  const int prompt = states.run.prompt_length, length = states.run.tokens();
  ASSERT_GT(length, prompt);
  std::vector<std::pair<double, std::pair<int, int>>> readers;
  for (const auto& [layer, head] : test::cells(2, 2)) {
    double sum = 0.0;
    for (int query_head = 2 * head; query_head < 2 * head + 2; ++query_head) {
      const auto weights = attention(layer, query_head);
      for (int query = prompt; query + 1 < length; ++query) {
        for (int key = 0; key < prompt; ++key) sum += weights[query][key];
      }
    }
    readers.push_back({sum / (2.0 * (length - 1 - prompt)), {layer, head}});
  }
  std::sort(readers.begin(), readers.end(), std::greater<>());
  for (int rank = 1; rank <= 4; ++rank) {
    const auto& [share, at] = readers[rank - 1];
    const std::string of = "(\"context\", " + std::to_string(rank) + ")";
    EXPECT_NEAR(number("reader_share" + of), share, 1e-4);
    EXPECT_EQ(number("reader_layer" + of), at.first);
    EXPECT_EQ(number("reader_head" + of), at.second);
    workspace.selection.layer = at.first;
    workspace.selection.head = at.second;
    EXPECT_DOUBLE_EQ(number("reader_kept" + of), number("segment_kept(\"context\")"));
  }
  EXPECT_TRUE(std::isnan(number("reader_share(\"context\", 5)")));
  EXPECT_TRUE(std::isnan(number("reader_share(\"context\", 0)")));
  EXPECT_TRUE(std::isnan(number("reader_share(\"needle\", 1)"))) << "the trace has none";
}

TEST_F(LessonValues, OfTheModelsWordsAreItsPredictions) {
  const auto predicted = traces.trace->predictions();
  ASSERT_TRUE(predicted);
  double loss = 0.0;
  for (int t = 1; t < 96; ++t) loss += static_cast<double>(predicted->loss[t - 1]) / 95;
  EXPECT_NEAR(number("mean_loss"), loss, 1e-9);
  EXPECT_NEAR(number("probability(40)"), std::exp(-static_cast<double>(predicted->loss[39])),
              1e-12);
  EXPECT_TRUE(std::isnan(number("probability(0)")));
  EXPECT_TRUE(std::isnan(number("closed_mean_loss(0)")));
  EXPECT_TRUE(std::isnan(number("closed_answer_right(0)")));
  EXPECT_EQ(text("closed_answer(0)"), "");
  test::write_synthetic_closed_loop(folder / "c.h5", options, "h2o", 24);
  traces.closed = {std::make_shared<const Trace>(folder / "c.h5")};
  EXPECT_GT(number("closed_mean_loss(0)"), 0.0);
  EXPECT_NE(number("closed_mean_loss(0)"), number("mean_loss"));
  EXPECT_TRUE(std::isnan(number("closed_mean_loss(1)")));
  EXPECT_EQ(number("closed_runs"), static_cast<double>(traces.closed.size()));
  EXPECT_EQ(text("closed_policy(0)"), traces.closed[0]->run().policy);
  EXPECT_EQ(number("closed_entries(0)"), traces.closed[0]->run().budget);
  EXPECT_EQ(text("closed_policy(7)"), "");
  EXPECT_TRUE(std::isnan(number("closed_entries(7)")));
}

TEST(Answer, IsTheModelsOwnWhetherItsWordsWereTakenOrNot) {
  TokenTable tokens{.ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 10, 11, 12, 4},
                    .text = {"<s>", " Bowl", " 17", ".", " The", " number", " is", " 4", "7", ".",
                             " Which", "?", " 47", "."},
                    .segment = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3},
                    .segment_names = {"context", "needle", "question", "answer"}};
  EXPECT_EQ(segment_of(tokens, "needle"), (std::pair{4, 9}));
  EXPECT_EQ(segment_of(tokens, "beyond"), (std::pair{-1, -1}));
  EXPECT_EQ(needle_number(tokens), "47");
  EXPECT_EQ(needle_token(tokens), 7) << "the 4 of 47";
  TokenTable plain = tokens;
  plain.segment.assign(plain.segment.size(), 0);
  EXPECT_EQ(needle_token(plain), -1);
  EXPECT_EQ(first_sentence(" 47."), "47");
  EXPECT_EQ(first_sentence("\n The key is in 47. Yes …"), "The key is in 47");
  EXPECT_EQ(first_sentence(" 47 47 47 47 is in the proud old bowl of the king who had it from it"),
            "47 47 47 47 is in the proud old bowl of the king who had it …");
  EXPECT_EQ(is_right("The key is in 47", "47"), true);
  EXPECT_EQ(is_right("The key is in 12 …", "47"), false);
  EXPECT_EQ(is_right("47 and", "47"), true);
  EXPECT_EQ(is_right("471", "47"), false);
  EXPECT_EQ(is_right("4", "47"), false);
  EXPECT_EQ(is_right("", "47"), std::nullopt);
  EXPECT_EQ(is_right("47", ""), std::nullopt);
}

TEST_F(LessonValues, ConditionsAreMetByNumbersOtherThanZero) {
  const auto met = [&](const char* expression) {
    return is_met(Expression(expression), state(), test::unwatched);
  };
  EXPECT_TRUE(met("layer == 1 && head == 1"));
  EXPECT_FALSE(met("layer == 0 || head == 0"));
  EXPECT_TRUE(met("layer > 0 ? head == 1 : head == 0"));
  EXPECT_FALSE(met("kept_b(0)")) << "not known is not met";
  EXPECT_FALSE(met("kept_b(0) > 0"));
  EXPECT_FALSE(met("sqrt(0 - 1) > 0"));
  EXPECT_FALSE(is_met(Expression(), state(), test::unwatched));
}

TEST_F(LessonValues, WhatTakesLongCanBeStopped) {
  Progress stopped;
  stopped.cancel();
  EXPECT_THROW(evaluate(Expression("sinks.share"), state(), stopped), Cancelled);
  EXPECT_THROW(evaluate(Expression("mean_measure(\"retained_mass\")"), state(), stopped),
               Cancelled);
}

TEST_F(LessonValues, QuickOnesNeedNeitherReplayNorStates) {
  EXPECT_TRUE(Expression("budget < 0.1 && step == blocks - 1 && viewing(\"pca\")").is_quick());
  EXPECT_FALSE(Expression("budget < 0.1 && layer == sinks.layer").is_quick());
  EXPECT_FALSE(Expression("kept(segment_first(\"needle\"))").is_quick());
  LessonState bare = state();
  bare.store = nullptr;  // what is quick never asks for it
  for (const ValueGroup& group : value_catalog()) {
    for (const ValueInfo& info : group.values) {
      if (!info.quick) continue;
      std::vector<Value> arguments;
      for (const auto& [kind, called] : info.arguments) {
        if (kind == Argument::number) {
          arguments.emplace_back(1.0);
        } else {
          arguments.emplace_back(std::string(kind == Argument::view ? "pca" : "h2o"));
        }
      }
      info.compute(bare, arguments, test::unwatched);
    }
  }
}

TEST(ValueCatalog, EveryValueHasItsWords) {
  std::set<std::string> names;
  for (const ValueGroup& group : value_catalog()) {
    for (const ValueInfo& info : group.values) {
      EXPECT_TRUE(names.insert(info.name).second) << info.name;
      EXPECT_FALSE(info.meaning.empty()) << info.name;
      EXPECT_NE(info.compute, nullptr) << info.name;
      EXPECT_GE(info.name.size(), 3U) << "a temporary's name is as long: " << info.name;
      EXPECT_EQ(find_value(info.name), &info);
    }
  }
  EXPECT_EQ(names.size(), value_names().size());
}

TEST(ValueCatalog, TheDocumentHasItsTable) {
  const std::string text = test::file_text(KVLOUPE_SOURCE_DIR "/docs/lessons.md");
  const std::string whole = text;
  const std::size_t at = whole.find("\n## Values\n\n");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(whole.substr(at + 12), values_markdown())
      << "stale; put what `kvloupe lesson --values` writes behind the heading Values";
}

TEST(LessonExpression, WhatIsWrongHasItsColumn) {
  const auto refusal = [](const std::string& text) {
    try {
      const Expression expression(text);
    } catch (const ExpressionError& error) {
      return std::to_string(error.column) + ": " + error.what();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("min(1, 2) + 3 * -layer ^ 2"), "accepted");
  EXPECT_EQ(refusal("rest(layer, min(query_head, 3))"), "accepted");
  EXPECT_THAT(refusal(""), HasSubstr("1: the expression is empty"));
  EXPECT_THAT(refusal("1 + budgett"),
              HasSubstr("5: 'budgett' is not a value; the nearest is 'budget'"));
  EXPECT_THAT(refusal("sinks.shar"), HasSubstr("'sinks.share'"));
  EXPECT_THAT(refusal("kept(1"), HasSubstr("5: a ')' is missing"));
  EXPECT_THAT(refusal("(1"), HasSubstr("a ')' is missing"));
  EXPECT_THAT(refusal("1, 2"), HasSubstr("one value"));
  EXPECT_THAT(refusal("(1, 2)"), AnyOf(HasSubstr("one value"), HasSubstr("comma")));
  EXPECT_THAT(refusal("kept(1, )"), HasSubstr("the form of 'kept' is kept(token)"));
  EXPECT_THAT(refusal("kept()"), HasSubstr("the expression is empty"));
  EXPECT_THAT(refusal("rest(0, )"), HasSubstr("8: the expression is empty"));
  EXPECT_THAT(refusal("layer(1)"), HasSubstr("takes no arguments"));
  EXPECT_THAT(refusal("measure(retained_mass)"), HasSubstr("a word in quotes"));
  EXPECT_THAT(refusal("measure(\"retained_mass)"), HasSubstr("a quote is not closed"));
  EXPECT_THAT(refusal("\"word\""), HasSubstr("words in quotes are allowed only as arguments"));
  EXPECT_THAT(refusal("model + 1"), HasSubstr("'model' is a text"));
  EXPECT_THAT(refusal("kept(model)"), HasSubstr("this must be a number"));
  EXPECT_THAT(refusal("layer = 1"), HasSubstr("7: assignment is not allowed"));
  EXPECT_THAT(refusal("layer & 1"), HasSubstr("'&' is not an operator"));
  EXPECT_THAT(refusal("1 2"), HasSubstr("3: an operator is missing before it"));
  EXPECT_THAT(refusal("layer 2"), HasSubstr("an operator is missing before it"));
  EXPECT_THAT(refusal("1e"), HasSubstr("not a number"));
  EXPECT_THAT(refusal("sin"), HasSubstr("is not a value"));
  EXPECT_THAT(refusal("sin()"), HasSubstr("few"));
  EXPECT_THAT(refusal(std::string(2000, '1')), HasSubstr("longer than 1000"));
  std::string deep = "0";
  for (int i = 0; i < 20; ++i) deep = "kept(" + deep + ")";
  EXPECT_THAT(refusal(deep), HasSubstr("nested too deeply"));
  std::string many = "layer";
  for (int i = 0; i < 100; ++i) many += "+layer";
  EXPECT_THAT(refusal(many), HasSubstr("too many values"));
  EXPECT_EQ(refusal(std::string(400, '(') + "1" + std::string(400, ')')), "accepted");
}

}  // namespace
}  // namespace kvloupe::lesson

// The numbers of the figures of runs in the model's own cache (drift, evaluations) and of single
// evictions (CAOTE), read from their CSV, beside plain loops and the naive twins.

#include "analysis/replay/drift.h"
#include "analysis/trace/trace_final_norm.h"
#include "app/document/figure_file.h"
#include "tests/app/cli_call.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/naive/naive_logits.h"
#include "tests/naive/naive_measures.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using ::testing::Key;
using ::testing::Pair;
using Row = test::CsvRow;

constexpr int kBudget = 24;

struct ModelFigures : ::testing::Test {
  ModelFigures() {
    options.clusters = 4;
    options.lm_head = true;
    test::write_synthetic_closed_loop(folder / "closed.h5", options, "h2o", kBudget);
    full = test::open_synthetic_trace(folder / "full.h5", options);
    closed = std::make_shared<const Trace>(folder / "closed.h5");
  }

  static std::vector<Row> rows_of(const Figure& figure) {
    std::vector<Row> rows = test::csv_rows(figure);
    EXPECT_FALSE(rows.empty());
    return rows;
  }
  static MadeFigure make(const request::FigureMaker& maker, const std::string& name,
                         const request::FigureSettings& settings = {}) {
    return maker.make(find_figure(name), settings, test::unwatched);
  }
  static request::FigureSettings settings(const std::string& policy) {
    return request::FigureSettings{.policy = parse_policy(policy),
                                   .budget = parse_budget(std::to_string(kBudget))};
  }
  /// By a plain replay in double: what each head of a layer retains after each step.
  std::vector<std::vector<naive::HeadStep>> naive_steps(const Trace& trace, int layer,
                                                        const std::string& policy) const {
    const LayerStates states = load_layer_states(trace, layer);
    naive::NaiveReplay replay(states, trace.model(), trace.run().attention_scale, layer,
                              parse_policy(policy), kBudget);
    std::vector<std::vector<naive::HeadStep>> steps;
    for (const Block& block : replay_blocks(trace, 0, {})) steps.push_back(replay.step(block));
    return steps;
  }

  test::SyntheticTraceOptions options;
  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> full, closed;
};

TEST_F(ModelFigures, DriftIsCountedTokenByTokenInEitherOrder) {
  const MadeFigure made = make(request::FigureMaker({full, closed}), "drift");
  const std::vector<Row> rows = rows_of(*made.figure);
  EXPECT_EQ(rows, rows_of(*make(request::FigureMaker({closed, full}), "drift").figure));
  const std::vector<Block> blocks = closed->blocks();
  int checked = 0, differ = 0;
  for (int layer = 0; layer < options.layers; ++layer) {
    const auto steps = naive_steps(*full, layer, "h2o");
    for (int head = 0; head < options.heads; ++head) {
      const auto left = *closed->evicted_at(layer, head);
      double mean = 0.0;
      long counted = 0;
      for (std::size_t step = 0; step < blocks.size(); ++step) {
        const auto& own = steps[step][head].retained;
        const std::set<int> a(own.begin(), own.end());
        std::set<int> all = a;
        double common = 0.0;
        for (int t = 0; t < blocks[step].end; ++t) {
          const int when = left[t];
          if (when >= 0 && when <= static_cast<int>(step)) continue;
          common += a.contains(t) ? 1.0 : 0.0;
          all.insert(t);
        }
        const double expected = common / static_cast<double>(all.size());
        const bool evicts = std::any_of(left.begin(), left.end(), [&](int when) {
          return when >= 0 && when <= static_cast<int>(step);
        });
        if (evicts) mean += expected, ++counted;
        differ += expected < 1.0;
        for (const Row& row : rows) {
          if (row.at("measure") != "jaccard" || row.at("layer") != std::to_string(layer) ||
              row.at("head") != std::to_string(head) || row.at("step") != std::to_string(step)) {
            continue;
          }
          EXPECT_NEAR(std::stod(row.at("value")), expected, 1e-8);
          if (layer == 0) {
            EXPECT_EQ(expected, 1.0);
          }
          ++checked;
        }
      }
      for (const Row& row : rows) {
        if (row.at("measure") == "mean_jaccard" && row.at("layer") == std::to_string(layer) &&
            row.at("head") == std::to_string(head)) {
          EXPECT_NEAR(std::stod(row.at("value")), mean / static_cast<double>(counted), 1e-8);
        }
      }
    }
    double difference = 0.0, whole = 0.0;
    for (int head = 0; head < options.heads; ++head) {
      const Matrix a = full->key(layer, head), b = closed->key(layer, head);
      for (Eigen::Index i = 0; i < a.size(); ++i) {
        difference += std::pow(double{a.data()[i]} - double{b.data()[i]}, 2);
        whole += std::pow(double{a.data()[i]}, 2);
      }
    }
    for (const Row& row : rows) {
      if (row.at("measure") != "keys_distance" || row.at("layer") != std::to_string(layer))
        continue;
      EXPECT_NEAR(std::stod(row.at("value")), 100.0 * std::sqrt(difference / whole), 1e-4);
      EXPECT_EQ(row.at("unit"), "percent");
      ++checked;
    }
  }
  EXPECT_EQ(checked, options.layers * (options.heads * static_cast<int>(blocks.size()) + 1));
  EXPECT_GT(differ, 0);
  int same = 0, tokens = 0;
  for (const Row& row : rows) {
    if (row.at("measure") != "same_top1") continue;
    const auto a = full->predictions()->token_ids, b = closed->predictions()->token_ids;
    const std::size_t at = std::stoul(row.at("token")) * 3;
    EXPECT_EQ(row.at("value") == "1", a[at] == b[at]);
    same += a[at] == b[at];
    ++tokens;
  }
  EXPECT_EQ(tokens, options.tokens());
  EXPECT_THAT(
      made.figure->caption(),
      HasSubstr(fmt::format("after {:.1f} % of tokens, loss +0.125 nats", 100.0 * same / tokens)));
}

TEST_F(ModelFigures, ALayersAgreementIsTheMeanOfItsHeads) {
  ReplayRequest request{.policy = parse_policy("h2o"), .budget = kBudget};
  const Replay open = replay(*full, request, test::unwatched);
  EXPECT_TRUE(is_same_policy(open, *closed));
  const Drift drift = measure_drift(*full, *closed, test::unwatched);
  for (int layer = 0; layer < options.layers; ++layer) {
    double mean = 0.0;
    for (const HeadDrift& head : drift.heads) {
      if (head.layer == layer)
        mean += Drift::mean_jaccard(head, drift.first_eviction) / options.heads;
    }
    EXPECT_NEAR(layer_agreement(open, *closed, layer, test::unwatched), mean, 1e-12);
  }
  EXPECT_LT(layer_agreement(open, *closed, 1, test::unwatched), 1.0);
  request.budget = kBudget + 1;
  EXPECT_FALSE(is_same_policy(replay(*full, request, test::unwatched), *closed));
}

TEST_F(ModelFigures, RunsThatCannotBeComparedAreRefused) {
  EXPECT_TRUE(is_drift_pair(*full, *closed));
  EXPECT_FALSE(is_drift_pair(*closed, *full));
  EXPECT_FALSE(is_drift_pair(*full, *full));
  EXPECT_THROW(make(request::FigureMaker({full, full}), "drift"), FileError);
  EXPECT_THROW(make(request::FigureMaker({closed, closed}), "drift"), FileError);
  EXPECT_THROW(make(request::FigureMaker(full), "drift"), UsageError);
  test::SyntheticTraceOptions others = options;
  others.seed = 5;  // other tokens
  const auto other = test::open_synthetic_trace(folder / "other.h5", others);
  EXPECT_FALSE(is_drift_pair(*other, *closed));
  EXPECT_THROW(make(request::FigureMaker({other, closed}), "drift"), FileError);
}

TEST_F(ModelFigures, NeedlesAreCountedPlaceByPlace) {
  const auto path = test::write_synthetic_evaluation(folder / "needle.json");
  const auto evaluation = test::results_of(path);
  request::FigureSettings wanted;
  wanted.budget = parse_budget("30%");  // nearest: 25%, the second
  int places = 0;
  for (const Row& row :
       rows_of(*make(request::FigureMaker(evaluation), "needle-grid", wanted).figure)) {
    const int policy = row.at("policy") == "full" ? 0 : row.at("policy") == "h2o" ? 1 : 2;
    EXPECT_EQ(row.at("budget"), policy == 0 ? "full" : "25%");
    const int length = row.at("length_tokens") == "256" ? 0 : 1;
    const int depth = (std::stoi(row.at("depth_percent")) - 10) / 40;
    double found = 0.0;
    for (int sample = 0; sample < 2; ++sample)
      found += policy == 0 || (policy + 1 + sample + length + depth) % 3 != 0 ? 50.0 : 0.0;
    EXPECT_EQ(std::stod(row.at("found_percent")), found);
    EXPECT_EQ(row.at("runs"), "2");
    ++places;
  }
  EXPECT_EQ(places, 18);
  // The text under a figure says at which budget; if all are shown, it names none.
  for (const char* name : {"needle-grid", "layer-drift"}) {
    EXPECT_THAT(make(request::FigureMaker(evaluation), name, wanted).settings,
                Contains(Pair("budget", "25%")));
  }
  EXPECT_THAT(make(request::FigureMaker(evaluation), "perplexity-budget", wanted).settings,
              Not(Contains(Key("budget"))));
  int points = 0;
  for (const Row& row :
       rows_of(*make(request::FigureMaker(evaluation), "perplexity-budget").figure)) {
    const int policy = row.at("line").starts_with("h2o") ? 1 : 2;
    const int budget = row.at("budget_percent") == "10"   ? 0
                       : row.at("budget_percent") == "25" ? 1
                                                          : 2;
    double found = 0.0;
    for (int i = 0; i < 12; ++i)
      found += (policy + budget + i / 6 + i / 3 % 2 + i % 3) % 3 != 0 ? 100.0 / 12.0 : 0.0;
    // Wilson's interval: the shares p with |p̂ − p| ≤ z √(p(1 − p)/n), found here by small steps.
    double low = 1.0, high = 0.0;
    for (double p = 0.0; p <= 1.0; p += 1e-5) {
      if (std::abs(found / 100.0 - p) > 1.959964 * std::sqrt(p * (1.0 - p) / 12.0)) continue;
      low = std::min(low, p);
      high = std::max(high, p);
    }
    const std::string& line = row.at("line");
    const double expected = line.ends_with("low_95")    ? 100.0 * low
                            : line.ends_with("high_95") ? 100.0 * high
                                                        : found;
    EXPECT_NEAR(std::stod(row.at("found_percent")), expected, expected == found ? 1e-6 : 2e-3);
    ++points;
  }
  EXPECT_EQ(points, 18) << "each with both ends of its interval";
}

TEST_F(ModelFigures, PerplexityIsOfTheMeanLossAndLessTheFullCaches) {
  const auto path = test::write_synthetic_evaluation(folder / "loss.json", false);
  const auto evaluation = test::results_of(path);
  const request::FigureMaker maker(evaluation);
  for (const auto& [measure, column] : {std::pair{"perplexity", "perplexity_difference"},
                                        {"loss", "loss_difference_nats"},
                                        {"kl", "kl_nats"},
                                        {"top1", "same_top1_percent"}}) {
    request::FigureSettings wanted;
    wanted.choices["measure"] = measure;
    int points = 0;
    for (const Row& row : rows_of(*make(maker, "perplexity-budget", wanted).figure)) {
      const int policy = row.at("line").starts_with("h2o") ? 1 : 2;
      const int budget = row.at("budget_percent") == "10"   ? 0
                         : row.at("budget_percent") == "25" ? 1
                                                            : 2;
      const double difference = 0.1 * policy / (budget + 1) + 0.005;  // the mean of both samples
      const std::string of = measure;
      const double expected = of == "loss"   ? difference
                              : of == "kl"   ? 0.5 * difference
                              : of == "top1" ? 100.0 * (1.0 - difference)
                                             : std::exp(3.01 + difference) - std::exp(3.01);
      EXPECT_NEAR(std::stod(row.at(column)), expected, 1e-6 * (1.0 + expected)) << measure;
      ++points;
    }
    EXPECT_EQ(points, 6) << "two prompts have no interval";
  }
  EXPECT_THROW(make(maker, "needle-grid"), WorkError);
  EXPECT_THROW(make(request::FigureMaker(full), "perplexity-budget"), UsageError);
}

TEST_F(ModelFigures, ARescueShowsEveryHeadAndNamesTheSmallestSets) {
  const request::FigureMaker maker(
      test::results_of(test::write_synthetic_rescue(folder / "rescue.json")));
  const MadeFigure made = make(maker, "rescue");
  const std::vector<Row> rows = rows_of(*made.figure);
  ASSERT_EQ(rows.size(), 6U);
  for (int i = 0; i < 6; ++i) {
    const Row& row = rows[i];
    EXPECT_EQ(row.at("layer"), std::to_string(i / 2));
    EXPECT_EQ(row.at("head"), std::to_string(i % 2));
    if (i > 0) {
      EXPECT_NEAR(std::stod(row.at("predicted_loss")), 0.1 * i, 1e-9);
    }
    EXPECT_NEAR(std::stod(row.at("kept_gain")), 0.5 * i, 1e-9);
    EXPECT_EQ(row.at("kept_right"), i >= 4 ? "1" : "0");
    EXPECT_EQ(row.at("in_smallest_kept"), i == 4 ? "1" : "0");
    EXPECT_NEAR(std::stod(row.at("dropped_gain")), -0.3 * i, 1e-9);
    EXPECT_EQ(row.at("dropped_right"), i < 5 ? "1" : "0");
    EXPECT_EQ(row.at("in_smallest_dropped"), i == 3 || i == 5 ? "1" : "0");
  }
  EXPECT_THAT(made.figure->caption(), HasSubstr("a set of 1 head that restores the answer"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("(1.1, 2.1)"));
  EXPECT_THAT(made.figure->caption(),
              HasSubstr("Rank correlation of a with the log-probability in b: 1.00"));
  EXPECT_THAT(made.figure->value_text({.layer = 2, .head = 0}), HasSubstr("kept +2 nats (right)"));
  // The heads are listed by what the model gains where they keep the tokens.
  std::vector<std::string> names;
  for (const Text& text : test::items_of<Text>(test::scene_of("rescue", made))) {
    if (text.text.size() == 3 && text.text[1] == '.') names.push_back(text.text);
  }
  names.resize(std::min<std::size_t>(names.size(), 6));
  EXPECT_THAT(names, ElementsAre("2.1", "2.0", "1.1", "1.0", "0.1", "0.0"));
  EXPECT_THROW(make(maker, "needle-grid"), WorkError);
  EXPECT_THROW(make(maker, "perplexity-budget"), WorkError);
  EXPECT_THROW(make(maker, "layer-drift"), WorkError);
  const request::FigureMaker needles(
      test::results_of(test::write_synthetic_evaluation(folder / "needle.json")));
  EXPECT_THROW(make(needles, "rescue"), WorkError);
}

TEST_F(ModelFigures, LeaveOneOutShowsEveryHeadThatWasRun) {
  const auto path = test::write_synthetic_rescue(folder / "rescue.json");
  const request::FigureMaker maker(test::results_of(path));
  const MadeFigure made = make(maker, "cause-scatter");
  const std::vector<Row> rows = rows_of(*made.figure);
  ASSERT_EQ(rows.size(), 6U);
  for (int i = 0; i < 6; ++i) {
    const Row& row = rows[i];
    EXPECT_EQ(row.at("layer"), std::to_string(i / 2));
    EXPECT_EQ(row.at("head"), std::to_string(i % 2));
    EXPECT_NEAR(std::stod(row.at("fall")), 0.3 * i, 1e-9);
    EXPECT_NEAR(std::stod(row.at("attention")), i == 1 ? 0.6 : 0.1 * i, 1e-9);
    EXPECT_NEAR(std::stod(row.at("score_rank")), 1.0 - 0.1 * i, 1e-9);
  }
  EXPECT_EQ(rows[0].at("drop_blame"), "");
  // Ranks 1 6 2 3 4 5 against 1 2 3 4 5 6: ρ = 1 − 6 · 20 / 210; the interval by hand.
  const double rho = 1.0 - 6.0 * 20.0 / 210.0;
  const double reach = 1.959964 * std::sqrt((1.0 + rho * rho / 2.0) / 3.0);
  const std::string interval =
      fmt::format("a, {:.2f} (−{:.2f} to {:.2f})", rho, -std::tanh(std::atanh(rho) - reach),
                  std::tanh(std::atanh(rho) + reach));
  EXPECT_THAT(made.figure->caption(), HasSubstr(interval));
  EXPECT_THAT(made.figure->caption(), HasSubstr("b, −1.00"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("without signs: a, 0.43"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("6 of 6 heads were run"));
  EXPECT_THAT(made.figure->value_text({.layer = 2, .head = 1}), HasSubstr("fall 1.50 nats"));
  const request::FigureMaker needles(
      test::results_of(test::write_synthetic_evaluation(folder / "needle.json")));
  EXPECT_THROW(make(needles, "cause-scatter"), WorkError);
}

TEST_F(ModelFigures, HiddenStatesDriftByTheMeanOfTheRunsAtTheNearestBudget) {
  for (const bool needles : {true, false}) {
    const auto path = test::write_synthetic_evaluation(folder / "results.json", needles);
    const request::FigureMaker maker(test::results_of(path));
    for (const auto& [measure, column] :
         {std::pair{"distance", "mean_relative_distance"}, {"cosine", "mean_cosine_distance"}}) {
      request::FigureSettings wanted;
      wanted.budget = parse_budget("30%");  // nearest: 25%, the second
      wanted.choices["measure"] = measure;
      int points = 0;
      for (const Row& row : rows_of(*make(maker, "layer-drift", wanted).figure)) {
        EXPECT_EQ(row.at("panel"), "25%");
        const double difference = 0.05 * (row.at("line") == "h2o" ? 1 : 2) + 0.005;
        const bool norm = row.at("after_layer") == "norm";
        const int layer = norm ? 3 : std::stoi(row.at("after_layer"));
        const double expected = measure == std::string("distance") ? difference * (layer + 1)
                                                                   : difference / (4 - layer);
        EXPECT_NEAR(std::stod(row.at(column)), expected, 1e-6) << row.at("line") << layer;
        ++points;
      }
      EXPECT_EQ(points, 2 * 4);
    }
    EXPECT_THAT(
        make(maker, "layer-drift").figure->caption(),
        HasSubstr(needles ? "over the last tokens of 12 prompts" : "all tokens of 2 texts"));
  }
  std::ofstream(folder / "old.json")
      << R"({"format":"kvloupe-eval","format_version":1,"settings":{"task":"perplexity"},"runs":[)"
      << R"({"policy":"full","budget":"full","entries":9,"length":9,"tokens":9,"loss":2}]})";
  const request::FigureMaker old(test::results_of(folder / "old.json"));
  EXPECT_THROW(make(old, "layer-drift"), WorkError);
  EXPECT_THROW(make(request::FigureMaker(full), "layer-drift"), UsageError);
}

TEST_F(ModelFigures, AModelOfManyLayersShowsWhatEntersTheHeadByName) {
  std::string layers = "0.1";
  for (int layer = 1; layer < 81; ++layer) layers += fmt::format(",{}", 0.1 + 0.01 * layer);
  std::ofstream(folder / "many.json") << fmt::format(
      R"({{"format":"kvloupe-eval","format_version":1,"settings":{{"task":"perplexity"}},"runs":[)"
      R"({{"policy":"h2o","budget":"9","entries":9,"length":9,"tokens":9,"loss":2,)"
      R"("hidden_distance":[{}],"normed_distance":0.3}}]}})",
      layers);
  const request::FigureMaker maker(test::results_of(folder / "many.json"));
  const MadeFigure made = make(maker, "layer-drift");
  const std::vector<Row> rows = rows_of(*made.figure);
  EXPECT_EQ(rows.size(), 82U);
  EXPECT_EQ(rows.back().at("after_layer"), "norm");
  for (const char* size : {"85x60mm", "178x100mm", "50x50mm"}) {
    FileOptions options{.size = parse_page_size(size)};
    int shown = 0;
    for (const Text& text : test::items_of<Text>(test::scene_of("layer-drift", made, options))) {
      shown += text.text == "norm";
    }
    EXPECT_EQ(shown, 1) << size;
  }
}

TEST_F(ModelFigures, StatesWithRandomEvictionAreALineOfChance) {
  std::string runs;
  for (const char* policy : {"h2o", "random"}) {
    runs +=
        fmt::format(R"({}{{"policy":"{}","budget":"9","entries":9,"length":9,"tokens":9,"loss":2,)"
                    R"("hidden_distance":[0.1,0.2],"normed_distance":0.3}})",
                    runs.empty() ? "" : ",", policy);
  }
  std::ofstream(folder / "chance.json")
      << R"({"format":"kvloupe-eval","format_version":1,"settings":{"task":"perplexity"},)"
      << R"("runs":[)" << runs << "]}";
  const request::FigureMaker maker(test::results_of(folder / "chance.json"));
  const MadeFigure made = make(maker, "layer-drift");
  std::map<std::string, int> points;
  for (const Row& row : rows_of(*made.figure)) ++points[row.at("line")];
  EXPECT_EQ(points, (std::map<std::string, int>{{"h2o", 3}, {"random", 3}}));
  const Scene scene = test::scene_of("layer-drift", made);
  EXPECT_TRUE(std::any_of(scene.items.begin(), scene.items.end(), [](const Item& item) {
    const Text* text = std::get_if<Text>(&item);
    return text != nullptr && text->text.starts_with("random, ");  // cut where narrow
  }));
}

TEST_F(ModelFigures, ExportReadsBothAndRefusesWhatIsNeither) {
  const std::string needle = test::write_synthetic_evaluation(folder / "needle.json").string();
  const std::string trace = full->path().string(), other = closed->path().string();
  const std::string out = (folder / "x.svg").string();
  test::Caller kvloupe;
  EXPECT_EQ(kvloupe.call({"export", trace, needle, "--figure", "needle-grid", "-o", out}), 2)
      << kvloupe.error;
  EXPECT_EQ(kvloupe.call({"export", trace, "--figure", "needle-grid", "-o", out}), 1);
  EXPECT_THAT(kvloupe.error, HasSubstr("full.h5: "));
  EXPECT_EQ(kvloupe.call({"export", needle, "--figure", "filmstrip", "-o", out}), 1);
  EXPECT_EQ(kvloupe.call({"export", trace, "--figure", "drift", "-o", out}), 2);
  std::ofstream(folder / "cut.json") << R"({"format":"kvloupe-eval","format_version":1,"runs":[)";
  EXPECT_EQ(kvloupe.call({"export", (folder / "cut.json").string(), "--figure", "perplexity-budget",
                          "-o", out}),
            1);
  EXPECT_THAT(kvloupe.error, HasSubstr("not valid JSON"));
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(kvloupe.call({"export", needle, "--figure", "needle-grid", "-o", out}), 0)
      << kvloupe.error;
  EXPECT_EQ(kvloupe.call({"export", other, trace, "--figure", "drift", "-o", out}), 0)
      << kvloupe.error;
}

TEST_F(ModelFigures, OneEvictionIsTheTwinsAndCaotesChoiceItsPolicys) {
  int differ = 0;
  for (const int layer : {0, 1}) {
    request::FigureSettings s = settings("h2o");
    s.layer = layer;
    s.head = 1;
    s.step = 0;  // the first that evicts: there both policies have the same cache
    const std::vector<Row> rows =
        rows_of(*make(request::FigureMaker(full), "eviction-error", s).figure);
    const auto base = naive_steps(*full, layer, "h2o")[0][1].retained;
    const auto with = naive_steps(*full, layer, "h2o+caote")[0][1].retained;
    const std::set<int> by_base(base.begin(), base.end()), by_caote(with.begin(), with.end());
    differ += by_base != by_caote;
    std::set<int> policy_keeps, caote_keeps;
    for (const Row& row : rows) {
      if (row.at("token").empty()) continue;
      if (row.at("retained") == "1") policy_keeps.insert(std::stoi(row.at("token")));
      if (row.at("retained_by_caote") == "1") caote_keeps.insert(std::stoi(row.at("token")));
    }
    EXPECT_EQ(policy_keeps, by_base);
    EXPECT_EQ(caote_keeps, by_caote);
    const LayerStates states = load_layer_states(*full, layer);
    const int query = full->blocks()[0].end - 1;
    std::vector<int> present;
    for (int t = 0; t <= query; ++t) present.push_back(t);
    for (const auto& [choice, kept] : {std::pair{"policy", by_base}, {"caote", by_caote}}) {
      double sum = 0.0, joint = 0.0;
      for (const int query_head : {2, 3}) {
        const naive::QueryHeadStates head{states, full->model(), full->run().attention_scale,
                                          query_head};
        const naive::EvictionError one =
            naive::eviction_error(head, head.attention(query, present), kept);
        sum += one.sum / 2;
        joint += one.joint / 2;
      }
      for (const Row& row : rows) {
        if (row.at("choice") != choice) continue;
        EXPECT_NEAR(std::stod(row.at("sum_of_errors")), sum, 1e-4 * sum);
        EXPECT_NEAR(std::stod(row.at("joint_error")), joint, 1e-4 * joint);
      }
    }
  }
  EXPECT_GT(differ, 0) << "the comparison shows nothing";
  EXPECT_THROW(make(request::FigureMaker(full), "eviction-error", settings("h2o+caote")),
               WorkError);
  request::FigureSettings all = settings("h2o");
  all.budget = parse_budget(std::to_string(full->length()));
  EXPECT_THAT(make(request::FigureMaker(full), "eviction-error", all).figure->caption(),
              HasSubstr("evicts nothing"));
}

TEST_F(ModelFigures, LogitsShiftAsTheTwinsOutputsDo) {
  const int layer = 1, step = 2;
  const int query = full->blocks()[step].end - 1;
  const LayerStates states = load_layer_states(*full, layer);
  const Matrix lm_head = *full->lm_head();
  const auto steps = naive_steps(*full, layer, "h2o");
  for (const char* of : {"evicted", "token"}) {
    request::FigureSettings s = settings("h2o");
    s.layer = layer;
    s.step = step;
    s.token = 5;
    s.choices["of"] = of;
    // (o' − o) W_O of every query head, twice the softmax, nothing clever.
    std::vector<double> change(static_cast<std::size_t>(options.hidden_size), 0.0);
    for (int query_head = 0; query_head < options.query_heads; ++query_head) {
      const naive::QueryHeadStates head{states, full->model(), full->run().attention_scale,
                                        query_head};
      std::vector<int> present, left;
      for (int t = 0; t <= query; ++t) present.push_back(t);
      if (std::string(of) == "token") {
        left = present;
        left.erase(left.begin() + 5);
      } else {
        const auto& kept = steps[step][query_head / 2].retained;
        left.assign(kept.begin(), kept.end());
      }
      for (const auto& [tokens, sign] : {std::pair{present, -1.0}, {left, 1.0}}) {
        for (const auto& [token, weight] : head.attention(query, tokens)) {
          const std::vector<double> value = head.value(token);
          const OutputWeight& output = states.output_weights[query_head];
          for (const auto& [c, i] : test::cells(change.size(), value.size()))
            change[c] += sign * weight * value[i] *
                         double{output(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(c))};
        }
      }
    }
    // Through the last norm at the query's own residual stream, and the output head.
    const TraceFinalNorm norm(*full);
    naive::LogitOf logit;
    std::vector<double> residual;
    for (Eigen::Index c = 0; c < lm_head.cols(); ++c) {
      logit.weight.push_back(norm.weight()[c]);
      logit.bias.push_back(0.0);
      residual.push_back(double{(*full->final_hidden())(query, c)} / norm.weight()[c] *
                         norm.rms(query));
    }
    std::vector<double> logits;
    for (Eigen::Index token = 0; token < lm_head.rows(); ++token) {
      logit.row.assign(change.size(), 0.0);
      for (std::size_t c = 0; c < change.size(); ++c)
        logit.row[c] = double{lm_head(token, static_cast<Eigen::Index>(c))};
      logits.push_back(logit.change(residual, change));
    }
    std::vector<double> sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    const std::vector<Row> rows =
        rows_of(*make(request::FigureMaker(full), "logit-effect", s).figure);
    ASSERT_EQ(rows.size(), 18U) << of;  // 8 rise, 8 fall, mean and deviation
    for (std::size_t i = 0; i < 16; ++i) {
      const double shown = std::stod(rows[i].at("logit_change"));
      const double expected = i < 8 ? sorted[i] : sorted[sorted.size() - 16 + i];
      EXPECT_NEAR(shown, expected, 2e-4) << of << " " << i;
      EXPECT_NEAR(shown, logits[std::stoul(rows[i].at("token_id"))], 2e-4);
    }
  }
  // Names come from the vocabulary where the trace has one.
  test::SyntheticTraceOptions with_words = options;
  with_words.vocabulary = true;
  const request::FigureMaker of_words(test::open_synthetic_trace(folder / "words.h5", with_words));
  for (const Row& row : rows_of(*make(of_words, "logit-effect", settings("h2o")).figure)) {
    const std::string& id = row.at("token_id");
    if (id.empty() || std::stoi(id) % 7 == 3) continue;
    EXPECT_EQ(row.at("text"), "“ wörd" + id + "”");
  }

  // Without evictions the output does not change, not even by rounding.
  request::FigureSettings whole = settings("h2o");
  whole.budget = parse_budget("100%");
  const MadeFigure same = make(request::FigureMaker(full), "logit-effect", whole);
  for (const Row& row : rows_of(*same.figure)) {
    EXPECT_EQ(row.at("token_id"), "");
    EXPECT_EQ(row.at("logit_change"), "0");
  }
  EXPECT_THAT(scene_problems(test::scene_of("logit-effect", same)), IsEmpty());

  test::SyntheticTraceOptions without = options;
  without.lm_head = false;
  test::write_synthetic_trace(folder / "without.h5", without);
  const Trace bare(folder / "without.h5");
  EXPECT_THAT(find_figure("logit-effect").unavailable(bare), HasSubstr("--lm-head"));
  without.lm_head_rows = true;  // not of every token of the vocabulary
  test::write_synthetic_trace(folder / "rows.h5", without);
  const Trace rows(folder / "rows.h5");
  EXPECT_THAT(find_figure("logit-effect").unavailable(rows), HasSubstr("--lm-head"));
  // A trace of an earlier version does not say what the last norm does.
  test::SyntheticTraceOptions old = options;
  old.predictions = false;
  test::write_synthetic_trace(folder / "old.h5", old);
  const Trace earlier(folder / "old.h5");
  EXPECT_THAT(find_figure("logit-effect").unavailable(earlier), HasSubstr("the last norm"));
}

}  // namespace
}  // namespace kvloupe::figure

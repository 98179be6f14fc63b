// The numbers of the figures of CriticalKV and CAOTE, read from their CSV, beside the naive replay
// and the formulas in plain loops.

#include "analysis/replay/ask.h"
#include "tests/figure/made_figures.h"
#include "tests/naive/naive_measures.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using Row = test::CsvRow;

constexpr int kLayers = 2;
constexpr int kQueryHeads = 4;
constexpr int kPrompt = 96;
constexpr int kGenerated = 8;
constexpr int kBudget = 24;

struct PerturbationFigures : ::testing::Test, test::TraceFigures {
  PerturbationFigures() : TraceFigures({.clusters = 4}) {}
  void SetUp() override {
    ASSERT_EQ(trace->model().num_layers, kLayers);
    ASSERT_EQ(trace->model().num_heads, kQueryHeads);
    ASSERT_EQ(trace->run().prompt_length, kPrompt);
    ASSERT_EQ(trace->run().generated, kGenerated);
    for (int layer = 0; layer < kLayers; ++layer)
      states.push_back(load_layer_states(*trace, layer));
  }

  static request::FigureSettings at_budget() {
    return request::FigureSettings{.budget = parse_budget(std::to_string(kBudget))};
  }

  /// "panel / line" of a figure of lines: y by the text of x.
  static std::map<std::string, double> line_of(const std::vector<Row>& rows,
                                               const std::string& panel, const std::string& line,
                                               const std::string& x, const std::string& y) {
    std::map<std::string, double> values;
    for (const Row& row : rows) {
      if (row.at("panel") == panel && row.at("line") == line)
        values[row.at(x)] = test::csv_number(row, y);
    }
    EXPECT_FALSE(values.empty()) << panel << " / " << line;
    return values;
  }

  /// A replay of one layer by the twin: its steps, and it itself to measure with.
  struct Twin {
    naive::NaiveReplay replay;
    std::vector<Block> blocks;
    std::vector<std::vector<naive::HeadStep>> steps;  // [S][Hk]
  };
  Twin twin(const std::string& policy, int layer, int budget = kBudget, int block = 0) const {
    Twin result{naive::NaiveReplay(states[layer], trace->model(), trace->run().attention_scale,
                                   layer, parse_policy(policy), budget),
                replay_blocks(*trace, block, {}),
                {}};
    for (const Block& one : result.blocks) result.steps.push_back(result.replay.step(one));
    return result;
  }
  /// The measures of a step's last query.
  naive::Measures measures(const Twin& twin, std::size_t step, int query_head) const {
    const auto head = static_cast<std::size_t>(trace->model().head_of(query_head));
    return twin.replay.measure(query_head, twin.blocks[step].end - 1,
                               twin.steps[step][head].retained);
  }
  naive::QueryHeadStates query_head_states(int layer, int query_head) const {
    return {states[layer], trace->model(), trace->run().attention_scale, query_head};
  }

  std::vector<LayerStates> states;  // [L]
};

std::vector<int> prefix(int token) {
  std::vector<int> tokens(static_cast<std::size_t>(token) + 1);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

void expect_close(double value, double expected, double tolerance = 1e-4) {
  EXPECT_NEAR(value, expected, tolerance * std::max(1.0, std::abs(expected)));
}

TEST_F(PerturbationFigures, PerturbationsAreTheTwinsPerHeadLayerAndBudget) {
  constexpr int budget = 48;  // more than the window that is protected
  for (const char* base : {"snapkv", "adakv"}) {
    for (const char* norm : {"l1", "l2"}) {
      const bool l2 = std::string(norm) == "l2";
      const std::string without =
          std::string("snapkv(pool=max)") + (std::string(base) == "adakv" ? "+adakv" : "");
      const std::string with = without + "+critical" + (l2 ? "(norm=l2)" : "");
      request::FigureSettings settings{.budget = parse_budget(std::to_string(budget)),
                                       .choices = {{"base", base}, {"norm", norm}, {"query", "3"}}};
      // Three blocks of the prompt, then token by token: the third after it is in step 3 + 2.
      const std::size_t step = 5;
      std::vector<double> sums[2] = {{0.0, 0.0}, {0.0, 0.0}};  // [L]
      const std::vector<Row> heads = rows_of("perturbation-heads", settings);
      ASSERT_EQ(heads.size(), static_cast<std::size_t>(kLayers * kQueryHeads));
      int changed = 0, better = 0;
      for (int layer = 0; layer < kLayers; ++layer) {
        const Twin one = twin(without, layer, budget), two = twin(with, layer, budget);
        for (int query_head = 0; query_head < kQueryHeads; ++query_head) {
          const Row& row = heads[layer * kQueryHeads + query_head];
          EXPECT_EQ(row.at("layer"), std::to_string(layer));
          EXPECT_EQ(row.at("query_head"), std::to_string(query_head));
          const auto perturbation = [&](const Twin& twin) {
            const naive::Measures all = measures(twin, step, query_head);
            return l2 ? all.perturbation_l2 : all.perturbation_l1;
          };
          const double before = perturbation(one), after = perturbation(two);
          expect_close(test::csv_number(row, "without"), before);
          expect_close(test::csv_number(row, "with"), after);
          EXPECT_NEAR(test::csv_number(row, "reduction_percent"), 100.0 * (before - after) / before,
                      0.05);
          sums[0][layer] += before;
          sums[1][layer] += after;
          changed += std::abs(before - after) > 1e-9;
          better += after < before - 1e-9;
        }
      }
      ASSERT_GT(changed, 0);
      const std::vector<Row> layers = rows_of("perturbation-layers", settings);
      settings.choices["budgets"] = std::to_string(budget);
      const std::vector<Row> budgets = rows_of("perturbation-budgets", settings);
      for (int i = 0; i < 2; ++i) {
        const char* name = i == 0 ? "without" : "with two stages";
        const auto means = line_of(layers, "", name, "layer", std::string("perturbation_") + norm);
        for (int layer = 0; layer < kLayers; ++layer) {
          expect_close(means.at(std::to_string(layer)), sums[i][layer] / kQueryHeads);
        }
        expect_close(line_of(budgets, "Perturbation", name, "budget", "value").at("48"),
                     (sums[i][0] + sums[i][1]) / (kLayers * kQueryHeads));
      }
      expect_close(line_of(budgets, "Better with two stages",
                           "query heads with a smaller perturbation", "budget", "value")
                       .at("48"),
                   100.0 * better / changed);
    }
  }
}

TEST_F(PerturbationFigures, AttentionMassIsThatOfTheStrongestHalfBudget) {
  request::FigureSettings settings = at_budget();
  settings.choices = {{"budgets", "6,24,61"}, {"alpha", "0.25"}};
  const std::vector<Row> rows = rows_of("attention-mass", settings);
  // ⌊0.25·6⌋ = 1, ⌊0.25·24⌋ = 6, ⌊0.25·61⌋ = 15
  const std::map<int, int> entries = {{6, 1}, {24, 6}, {61, 15}};
  std::map<int, int> above;
  const auto median = line_of(rows, "σ at N = 24", "median", "x", "value");
  const auto least = line_of(rows, "σ at N = 24", "least", "x", "value");
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<double> masses;
    for (int query_head = 0; query_head < kQueryHeads; ++query_head) {
      std::vector<double> attention;
      for (const auto& [token, weight] :
           query_head_states(layer, query_head).attention(kPrompt - 1, prefix(kPrompt - 1)))
        attention.push_back(weight);
      std::sort(attention.rbegin(), attention.rend());
      for (const auto& [budget, count] : entries) {
        const double mass = std::accumulate(attention.begin(), attention.begin() + count, 0.0);
        above[budget] += mass > 0.5;
        if (budget == 24) masses.push_back(mass);
      }
    }
    std::sort(masses.begin(), masses.end());
    expect_close(least.at(std::to_string(layer)), masses[0], 1e-5);
    expect_close(median.at(std::to_string(layer)), (masses[1] + masses[2]) / 2.0, 1e-5);
  }
  const auto share =
      line_of(rows, "Query heads with σ > 0.5", "query heads with σ > 0.5", "x", "value");
  for (const auto& [budget, count] : above) {
    EXPECT_NEAR(share.at(std::to_string(budget)), 100.0 * count / (kLayers * kQueryHeads), 1e-9);
  }
}

TEST_F(PerturbationFigures, BoundsAreTheTwinsAndInOrder) {
  const std::string policy = "snapkv(pool=max)+critical";
  for (const char* norm : {"l1", "l2"}) {
    const bool l2 = std::string(norm) == "l2";
    request::FigureSettings settings = at_budget();
    settings.policy = parse_policy(policy);
    settings.layer = 1;
    settings.query_head = 3;
    settings.head = 1;
    settings.choices = {{"norm", norm}};
    const std::vector<Row> rows = rows_of("bound", settings);
    const std::string panel = "Perturbation and bounds";
    const auto perturbation = line_of(rows, panel, "ℒ", "step", "value");
    const auto bound = line_of(rows, panel, "θ", "step", "value");
    const auto stage_one = line_of(rows, panel, "θ(σ)", "step", "value");
    const Twin twin = this->twin(policy, 1);
    ASSERT_EQ(perturbation.size(), twin.blocks.size());
    int known = 0;
    for (std::size_t step = 0; step < twin.blocks.size(); ++step) {
      const naive::Measures all = measures(twin, step, 3);
      const std::string x = fmt::format("{}", static_cast<double>(step) + 0.5);
      expect_close(perturbation.at(x), l2 ? all.perturbation_l2 : all.perturbation_l1);
      expect_close(bound.at(x), l2 ? all.bound_l2 : all.bound_l1);
      EXPECT_LE(perturbation.at(x), bound.at(x) * (1.0 + 1e-5)) << step;
      if (std::isnan(stage_one.at(x))) continue;
      ++known;
      EXPECT_LE(bound.at(x), stage_one.at(x) * (1.0 + 1e-5)) << step;
    }
    EXPECT_GT(known, 0);
    for (const Row& row : rows) {
      if (row.at("panel") == "Tightness" && !row.at("value").empty()) {
        EXPECT_LE(test::csv_number(row, "value"), 1.0 + 1e-5);
      }
    }
  }
}

TEST_F(PerturbationFigures, OutputErrorOfALayerIsTheTwins) {
  request::FigureSettings settings = at_budget();
  settings.choices = {{"policies", "h2o,tova+caote"}, {"queries", "steps"}};
  const std::vector<Row> rows = rows_of("output-error-layers", settings);
  for (const char* policy : {"h2o", "tova+caote"}) {
    const auto errors = line_of(rows, "", policy, "layer", "output_error");
    for (int layer = 0; layer < kLayers; ++layer) {
      const Twin twin = this->twin(policy, layer);
      double error = 0.0, output = 0.0;
      for (std::size_t step = 0; step < twin.blocks.size(); ++step) {
        for (int query_head = 0; query_head < kQueryHeads; ++query_head) {
          const int token = twin.blocks[step].end - 1;
          error += std::pow(measures(twin, step, query_head).head_error_l2, 2);
          output += std::pow(naive::output_norm(query_head_states(layer, query_head), token), 2);
        }
      }
      expect_close(errors.at(std::to_string(layer)), error / output);
    }
  }
}

TEST_F(PerturbationFigures, ALayersChangeIsThatOfTheAnswersQueries) {
  request::FigureSettings settings = at_budget();
  settings.choices = {{"policies", "h2o,tova+caote"}};
  const MadeFigure made = make("output-error-layers", settings);
  EXPECT_NE(made.figure->caption().find("answer"), std::string::npos) << made.figure->caption();
  const std::vector<Row> rows = rows_of("output-error-layers", settings);
  for (const char* policy : {"h2o", "tova+caote"}) {
    ReplayRequest request{.policy = parse_policy(policy), .budget = kBudget};
    const Replay replayed = replay(*trace, request, test::unwatched);
    const AskedReplay answer = ask(*trace, replayed, Asked::answer, {}, test::unwatched);
    ASSERT_EQ(answer.queries.size(), static_cast<std::size_t>(kGenerated));
    const auto errors = line_of(rows, "", policy, "layer", "output_error");
    for (int layer = 0; layer < kLayers; ++layer) {
      EXPECT_NEAR(errors.at(std::to_string(layer)), answer.layer_errors.at(layer), 1e-7);
      EXPECT_GT(errors.at(std::to_string(layer)), 0.0);
    }
  }
}

TEST_F(PerturbationFigures, BlockSizesKeepAndCostWhatTheTwinSays) {
  request::FigureSettings settings = at_budget();
  settings.choices = {{"policies", "h2o"}, {"blocks", "8,all"}};
  const std::vector<Row> rows = rows_of("block-size", settings);
  const auto overlaps = line_of(rows, "Kept tokens", "h2o", "block", "value");
  const auto errors = line_of(rows, "Output error", "h2o", "block", "value");
  EXPECT_EQ(overlaps.at("all"), 100.0);
  for (const int block : {8, kPrompt}) {
    const std::string x = block == kPrompt ? "all" : "8";
    const std::size_t first = static_cast<std::size_t>(kPrompt / block) - 1;  // end of the prompt
    double overlap = 0.0, error = 0.0, output = 0.0;
    for (int layer = 0; layer < kLayers; ++layer) {
      const Twin whole = twin("h2o", layer, kBudget, kPrompt);
      const Twin own = twin("h2o", layer, kBudget, block);
      for (std::size_t head = 0; head < 2; ++head) {
        const std::set<int>& a = whole.steps[0][head].retained;
        const std::set<int>& b = own.steps[first][head].retained;
        double both = 0.0;
        for (const int token : a) both += b.count(token) == 1;
        overlap += 100.0 * both / (static_cast<double>(a.size() + b.size()) - both) / 4.0;
      }
      for (std::size_t step = first; step < own.blocks.size(); ++step) {
        for (int query_head = 0; query_head < kQueryHeads; ++query_head) {
          const int token = own.blocks[step].end - 1;
          error += std::pow(measures(own, step, query_head).head_error_l2, 2);
          output += std::pow(naive::output_norm(query_head_states(layer, query_head), token), 2);
        }
      }
    }
    expect_close(overlaps.at(x), overlap, 1e-6);
    expect_close(errors.at(x), error / output);
  }
}

}  // namespace
}  // namespace kvloupe::figure

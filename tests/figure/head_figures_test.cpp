// The figures with a dot for every head, and the table of losses: their numbers, read from the CSV,
// beside the naive replay and the formulas in plain loops; what the pointer finds; the table in
// LaTeX.

#include "analysis/base/text/text.h"
#include "analysis/replay/follow.h"
#include "app/document/figure_file.h"
#include "app/figure/comparison.h"
#include "app/plot/ticks.h"
#include "tests/figure/made_figures.h"
#include "tests/naive/naive_asked.h"
#include "tests/naive/naive_measures.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

constexpr int kLayersOfTrace = 2, kHeadsOfTrace = 2, kGroupOfTrace = 2, kEntries = 24;

struct HeadFigures : ::testing::Test, test::TraceFigures {
  HeadFigures() : TraceFigures({.clusters = 4}) {}
  void SetUp() override {
    ASSERT_EQ(trace->model().num_layers, kLayersOfTrace);
    ASSERT_EQ(trace->model().num_kv_heads, kHeadsOfTrace);
    ASSERT_EQ(trace->model().group_size(), kGroupOfTrace);
    for (int token = trace->run().prompt_length - 1; token < trace->length() - 1; ++token)
      answers.push_back(token);
    for (int layer = 0; layer < kLayersOfTrace; ++layer)
      states.push_back(load_layer_states(*trace, layer));
  }

  MadeFigure make(const std::string& name, const Choices& choices, int step = -1) const {
    request::FigureSettings settings{.budget = parse_budget(std::to_string(kEntries)),
                                     .choices = choices};
    if (step >= 0) settings.step = step;
    return TraceFigures::make(name, settings);
  }

  Replay fast(const std::string& policy, int budget = kEntries) const {
    return replay(*trace, {.policy = parse_policy(policy), .budget = budget}, test::unwatched);
  }

  /// [L][Hk] of the answer's queries.
  std::vector<std::vector<naive::NaiveAsked>> asked(const std::string& policy,
                                                    int budget = kEntries) const {
    const Replay run = fast(policy, budget);
    std::vector<std::vector<naive::NaiveAsked>> layers;
    for (int layer = 0; layer < kLayersOfTrace; ++layer) {
      layers.push_back(naive::asked(states[layer], trace->layer_model(layer),
                                    trace->attention(layer), layer, run, answers));
    }
    return layers;
  }

  /// Of the last query of a step: mean over a head's query heads of what `number` takes.
  template <typename Number>
  double at_step(const std::string& policy, int layer, int head, std::size_t step,
                 const Number& number) const {
    const ModelInfo model = trace->layer_model(layer);
    naive::NaiveReplay twin(states[layer], model, trace->attention(layer), layer,
                            parse_policy(policy), kEntries);
    const std::vector<Block> blocks = replay_blocks(*trace, 0, {});
    std::vector<naive::HeadStep> heads;
    for (std::size_t s = 0; s <= step; ++s) heads = twin.step(blocks[s]);
    double sum = 0.0;
    for (int q = head * kGroupOfTrace; q < (head + 1) * kGroupOfTrace; ++q)
      sum += number(twin.measure(q, blocks[step].end - 1, heads[head].retained));
    return sum / kGroupOfTrace;
  }

  std::vector<LayerStates> states;  // [L]
  std::vector<int> answers;         // the queries that write the answer
};

void expect_relative(double value, double expected, const std::string& what) {
  EXPECT_NEAR(value, expected, 1e-4 * std::max(1e-3, std::abs(expected))) << what;
}

TEST_F(HeadFigures, PredictedAndMeasuredLossOfAStepAreTheTwins) {
  constexpr int kStep = 2;
  for (const char* predicted : {"bound", "lost-attention"}) {
    const bool bound = std::string(predicted) == "bound";
    const MadeFigure made =
        make("predicted-loss", {{"predicted", predicted}, {"policies", "h2o,tova"}}, kStep);
    const auto rows = test::csv_rows(*made.figure);
    ASSERT_EQ(rows.size(), 2U * kLayersOfTrace * kHeadsOfTrace);
    std::set<std::string> seen;
    for (const test::CsvRow& row : rows) {
      const std::string& policy = row.at("policy");
      const int layer = std::stoi(row.at("layer")), head = std::stoi(row.at("head"));
      const double x = test::csv_number(row, bound ? "bound_l1" : "lost_attention");
      const double y = test::csv_number(row, "perturbation_l1");
      expect_relative(x,
                      at_step(policy, layer, head, kStep,
                              [&](const naive::Measures& all) {
                                return bound ? all.bound_l1 : 1.0 - all.retained_mass;
                              }),
                      policy + " " + predicted);
      expect_relative(y,
                      at_step(policy, layer, head, kStep,
                              [](const naive::Measures& all) { return all.perturbation_l1; }),
                      policy);
      EXPECT_GT(y, 0.0);
      if (bound) {
        EXPECT_LE(y, x * (1.0 + 1e-5)) << "the bound is proven";
      }
      seen.insert(fmt::format("{} {}.{}", policy, layer, head));
    }
    EXPECT_EQ(seen.size(), rows.size());
    if (bound) {
      EXPECT_THAT(made.figure->caption(), HasSubstr("no dot lies above"));
    }
  }
}

TEST_F(HeadFigures, MeasuredLossOfLaterQueriesIsTheAnswers) {
  constexpr int kStep = 2;
  const MadeFigure made =
      make("predicted-loss", {{"queries", "later"}, {"policies", "h2o,tova"}}, kStep);
  EXPECT_THAT(made.figure->caption(), HasSubstr("answer"));
  EXPECT_THAT(made.figure->caption(), Not(HasSubstr("no dot lies above")));
  std::map<std::string, std::vector<std::vector<naive::NaiveAsked>>> twins;
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    const std::string& policy = row.at("policy");
    if (twins[policy].empty()) twins[policy] = asked(policy);
    const int layer = std::stoi(row.at("layer")), head = std::stoi(row.at("head"));
    const naive::NaiveAsked& twin = twins[policy][layer][head];
    expect_relative(test::csv_number(row, "answer_perturbation_l1"), twin.l1, policy);
    expect_relative(test::csv_number(row, "bound_l1"),
                    at_step(policy, layer, head, kStep,
                            [](const naive::Measures& all) { return all.bound_l1; }),
                    policy + ": of the step's own query, not of the answer's");
  }
  EXPECT_EQ(twins.size(), 2U);
}

TEST_F(HeadFigures, OutputErrorStandsBesideTheSpreadOfAttention) {
  const auto of_answer = asked("h2o");
  for (const char* against : {"effective-tokens", "sink-strength"}) {
    const bool by_sink = std::string(against) == "sink-strength";
    const MadeFigure made = make("output-error-heads", {{"against", against}, {"policies", "h2o"}});
    const auto rows = test::csv_rows(*made.figure);
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(kLayersOfTrace * kHeadsOfTrace));
    for (const test::CsvRow& row : rows) {
      const int layer = std::stoi(row.at("layer")), head = std::stoi(row.at("head"));
      const naive::NaiveAsked& twin = of_answer[layer][head];
      expect_relative(test::csv_number(row, "answer_output_error"), twin.error / twin.norm,
                      against);
      double spread = 0.0, sink = 0.0;
      for (int q = head * kGroupOfTrace; q < (head + 1) * kGroupOfTrace; ++q) {
        const auto attention =
            naive::full_attention(trace->query(layer, q), trace->key(layer, head),
                                  trace->run().attention_scale, trace->window(layer));
        double own_spread = 0.0, own_sink = 0.0;
        for (std::size_t query = 0; query < attention.size(); ++query) {
          double entropy = 0.0;
          for (const double a : attention[query]) entropy -= a > 0.0 ? a * std::log(a) : 0.0;
          own_spread += std::exp(entropy) / static_cast<double>(attention.size());
          if (query > 0) {
            own_sink += attention[query][0] / static_cast<double>(attention.size() - 1);
          }
        }
        spread += own_spread / kGroupOfTrace;
        sink += own_sink / kGroupOfTrace;
      }
      expect_relative(test::csv_number(row, by_sink ? "sink_strength" : "effective_tokens"),
                      by_sink ? sink : spread, against);
    }
  }
}

TEST_F(HeadFigures, OutputErrorOfTheStepsIsTheTwins) {
  const MadeFigure made =
      make("output-error-heads",
           {{"against", "sink-strength"}, {"queries", "steps"}, {"policies", "h2o"}});
  const std::vector<Block> blocks = replay_blocks(*trace, 0, {});
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    const int layer = std::stoi(row.at("layer")), head = std::stoi(row.at("head"));
    double error = 0.0, norm = 0.0;
    const ModelInfo model = trace->layer_model(layer);
    naive::NaiveReplay twin(states[layer], model, trace->attention(layer), layer,
                            parse_policy("h2o"), kEntries);
    bool evicted = false;
    for (const Block& block : blocks) {
      const std::set<int> retained = twin.step(block)[head].retained;
      evicted = evicted || static_cast<int>(retained.size()) < block.end;
      if (!evicted) continue;
      for (int q = head * kGroupOfTrace; q < (head + 1) * kGroupOfTrace; ++q) {
        error += std::pow(twin.measure(q, block.end - 1, retained).head_error_l2, 2);
        const naive::QueryHeadStates whole{states[layer], model, trace->attention(layer), q};
        norm += std::pow(naive::output_norm(whole, block.end - 1), 2);
      }
    }
    expect_relative(test::csv_number(row, "output_error"), error / norm, row.at("head"));
  }
}

TEST_F(HeadFigures, ADotNamesItsHeadUnderThePointer) {
  const MadeFigure made = make("predicted-loss", {{"policies", "h2o,tova"}});
  const Scene scene = test::scene_of("predicted-loss", made);
  ASSERT_EQ(scene.point_sets.size(), 2U);
  std::set<std::pair<int, int>> heads;
  for (std::size_t i = 0; i < scene.point_sets[1].points.size(); ++i) {
    const Point at = scene.point_sets[1].points[i];
    const auto found = scene.pick(at);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->token, -1);
    EXPECT_EQ(*found, scene.point_sets[1].target(i));
    EXPECT_THAT(made.figure->value_text(*found), HasSubstr("h2o: θ "));
    EXPECT_THAT(made.figure->value_text(*found), HasSubstr("tova: θ "));
    heads.insert({found->layer, found->head});
    // The places that show a head are its dots in both panels; a token has none.
    Target head;
    head.layer = found->layer;
    head.head = found->head;
    EXPECT_EQ(scene.where(head).size(), 2U);
  }
  EXPECT_EQ(heads.size(), static_cast<std::size_t>(kLayersOfTrace * kHeadsOfTrace));
  Target token;
  token.token = 0;
  EXPECT_TRUE(scene.where(token).empty());
}

TEST_F(HeadFigures, TheTableHasTheLossOfTheModelAndMarksTheLeast) {
  const Choices lists = {{"policies", "h2o,tova,h2o+recent(20%)"}, {"budgets", "12,24,40"}};
  for (const char* measure : {"change", "layer-error", "lost-attention"}) {
    Choices choices = lists;
    choices["measure"] = measure;
    const MadeFigure made = make("loss-table", choices);
    std::map<std::string, std::map<std::string, double>> expected;  // [budget][policy]
    const auto rows = test::csv_rows(*made.figure);
    ASSERT_EQ(rows.size(), 15U);  // three policies, and chance for both protections
    EXPECT_THAT(made.figure->caption(), HasSubstr("Random rows are chance"));
    EXPECT_THAT(made.figure->caption(), HasSubstr("How well it foretold the answers"))
        << measure << ": nobody takes one prompt's order of policies for their order";
    for (const test::CsvRow& row : rows) {
      const auto layers = asked(row.at("policy"), std::stoi(row.at("budget")));
      std::vector<const naive::NaiveAsked*> all;
      double worst = 0.0, lost = 0.0;
      for (const auto& layer : layers) {
        std::vector<const naive::NaiveAsked*> own;
        for (const naive::NaiveAsked& head : layer) {
          own.push_back(&head);
          lost += (1.0 - head.kept) / (kLayersOfTrace * kHeadsOfTrace);
        }
        worst = std::max(worst, naive::relative_change(own));
        all.insert(all.end(), own.begin(), own.end());
      }
      const std::string of = measure;
      const double value = of == "change"        ? naive::relative_change(all)
                           : of == "layer-error" ? worst
                                                 : lost;
      expect_relative(test::csv_number(row, of), value, row.at("policy") + " " + row.at("budget"));
      EXPECT_EQ(row.at("entries"), row.at("budget"));
      expected[row.at("budget")][row.at("policy")] = value;
    }
    for (const test::CsvRow& row : rows) {
      const auto& column = expected[row.at("budget")];
      const auto least =
          std::min_element(column.begin(), column.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (least->first == row.at("policy")) {
        EXPECT_EQ(row.at("least_at_budget"), "1");
      }
      if (row.at("least_at_budget") == "1") {
        EXPECT_NEAR(column.at(row.at("policy")), least->second, 0.01 * least->second);
      }
    }
  }
}

TEST_F(HeadFigures, TheTableIsLatexWithTheNumbersOfTheCsv) {
  const MadeFigure made =
      make("loss-table", {{"policies", "h2o,snapkv(pool=max)+recent(20%)"}, {"budgets", "10%,40"}});
  const std::string latex =
      file_of(find_figure("loss-table"), made, format_of("a.tex"), {}, test::fonts());
  EXPECT_THAT(latex, HasSubstr("\\begin{tabular}{lrr}\n\\toprule\n"));
  EXPECT_THAT(latex, HasSubstr("Policy & 10\\% & 40 \\\\\n\\midrule\n"));
  EXPECT_THAT(latex, HasSubstr("snapkv(pool=max)+recent(20\\%) & "));
  EXPECT_THAT(latex, HasSubstr("\\textbf{"));
  EXPECT_THAT(latex, HasSubstr("\\label{tab:loss-table}"));
  EXPECT_THAT(latex, HasSubstr("\\bottomrule\n\\end{tabular}\n\\end{table}\n"));
  EXPECT_EQ(std::count(latex.begin(), latex.end(), '{'),
            std::count(latex.begin(), latex.end(), '}'));
  for (const test::CsvRow& row : test::csv_rows(*made.figure))
    EXPECT_THAT(latex, HasSubstr(format_number(test::csv_number(row, "change"))));
  // No special character is left outside of commands and comments.
  std::istringstream lines(latex);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("%")) continue;
    for (std::size_t at = 0; (at = line.find("$W_O$")) != std::string::npos;) line.erase(at, 5);
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (std::string("%#_").find(line[i]) != std::string::npos) {
        EXPECT_TRUE(i > 0 && line[i - 1] == '\\') << line;
      }
    }
  }
}

TEST_F(HeadFigures, AFigureThatIsNoTableIsNotWrittenAsOne) {
  const MadeFigure made = make("predicted-loss", {{"policies", "h2o"}});
  EXPECT_THAT(test::error_of<UsageError>([&] {
                file_of(find_figure("predicted-loss"), made, FileFormat::tex, {}, test::fonts());
              }),
              HasSubstr("predicted-loss is no table"));
}

TEST(LatexTable, EscapesAndMarksUnknownCells) {
  Table table{.columns = {"A & B", ">5 %", ">x_1"}};
  table.add({"p{1}", "0.5", "–"});
  table.rows.back().cells[1].best = true;
  table.add({"#2", "−1", "~"});
  EXPECT_EQ(latex_table(table, {"100 % of \\ it", "t", {"one\ntwo"}}),
            "% one two\n\\begin{table}\n\\centering\n"
            "\\caption{100 \\% of \\textbackslash{} it}\n\\label{tab:t}\n"
            "\\begin{tabular}{lrr}\n\\toprule\nA \\& B & 5 \\% & x\\_1 \\\\\n\\midrule\n"
            "p\\{1\\} & \\textbf{0.5} & -- \\\\\n\\#2 & $-$1 & \\textasciitilde{} \\\\\n"
            "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

TEST(LatexText, SpellsSymbols) {
  EXPECT_EQ(latex_text("ℒ ≤ θ, ‖x‖"), "$\\mathcal{L}$ $\\le$ $\\theta$, $\\Vert$x$\\Vert$");
  EXPECT_EQ(latex_text("1\u2009994"), "1\\,994");
  EXPECT_EQ(latex_text("VW_O, x_O"), "V$W_O$, x\\_O");
  EXPECT_EQ(latex_text("Müller"), "Müller");
}

// Effects of policies on each role, read from the figure's CSV, beside plain counts over the
// double-precision twins.

std::vector<std::vector<double>> attention_of(const Trace& trace, int layer, int query_head) {
  return naive::full_attention(trace.query(layer, query_head),
                               trace.key(layer, trace.model().head_of(query_head)),
                               trace.run().attention_scale, trace.window(layer));
}

/// The index of its strongest role, or −1; and whether it rests on the sink.
std::pair<int, bool> named(const Trace& trace, int layer, int query_head) {
  const HeadRoles roles = naive::roles(attention_of(trace, layer, query_head), trace.window(layer),
                                       role_tokens(trace.tokens(), trace.run()));
  return {strongest_role(roles), roles.sink >= 0.3};
}

TEST(RoleFigures, EachRoleKeepsAndLosesWhatItsQueryHeadsDo) {
  const test::TemporaryFolder folder;
  // A trace whose sinks are so strong that some heads rest on them and others do not.
  std::shared_ptr<const Trace> trace;
  for (float logit = 3.0F; !trace && logit < 5.0F; logit += 0.1F) {
    test::SyntheticTraceOptions options{.sink_logit = logit};
    const auto path = folder / fmt::format("{:.1f}.h5", logit);
    const auto made = test::open_synthetic_trace(path, options);
    std::set<std::pair<int, bool>> names;
    for (const auto& [layer, head] : test::cells(made->model().num_layers, made->model().num_heads))
      names.insert(named(*made, layer, head));
    if (names.size() > 1) trace = made;
  }
  ASSERT_TRUE(trace) << "all heads have one role";
  constexpr int kBudget = 24, kStep = 2;
  request::FigureSettings settings{.step = kStep,
                                   .policy = parse_policy("keydiff"),
                                   .policy_b = parse_policy("h2o"),
                                   .budget = parse_budget(std::to_string(kBudget))};
  const MadeFigure made =
      request::FigureMaker(trace).make(find_figure("role-cost"), settings, test::unwatched);

  struct Count {
    double kept = 0.0, lost = 0.0, heads = 0.0;
  };
  std::map<std::string, Count> expected;  // series, panel and role
  const int group = trace->model().num_heads / trace->model().num_kv_heads;
  for (const std::string spec : {"keydiff", "h2o"}) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = kBudget};
    const Replay run = replay(*trace, request, test::unwatched);
    const int end = run.blocks[kStep].end;
    for (const HeadReplay& head : run.heads) {
      for (int q = head.head * group; q < (head.head + 1) * group; ++q) {
        const auto attention =
            naive::full_attention(trace->query(head.layer, q), trace->key(head.layer, head.head),
                                  trace->run().attention_scale, trace->window(head.layer));
        const HeadRoles values = naive::roles(attention, trace->window(head.layer),
                                              role_tokens(trace->tokens(), trace->run()));
        const int role = strongest_role(values);
        std::vector<std::string> rows{role < 0 ? "no name" : role_catalog()[role].label};
        if (values.sink >= 0.3) rows.emplace_back("sink");
        for (const std::string& row : rows) {
          Count& own = expected[spec + "/" + row];
          own.heads += 1.0;
          for (int token = 0; token < end; ++token) {
            const int gone = head.evicted_at[token];
            if (gone < 0 || gone > kStep) {
              own.kept += 1.0 / end;
            } else {
              own.lost += attention[end - 1][token];
            }
          }
        }
      }
    }
  }
  EXPECT_GT(expected.size(), 2U) << "one role in each policy is no test";
  std::size_t rows = 0;
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    const std::string role = row.at("role").substr(0, row.at("role").find(" ("));
    const auto found = expected.find(row.at("series") + "/" + role);
    ASSERT_NE(found, expected.end()) << row.at("series") << " " << role;
    const Count& own = found->second;
    EXPECT_EQ(row.at("role"), role + " (" + std::to_string(std::lround(own.heads)) + ")");
    const double value = row.at("panel") == "Entries kept" ? own.kept : own.lost;
    EXPECT_NEAR(std::stod(row.at("percent")), 100.0 * value / own.heads, 2e-3)
        << row.at("panel") << " " << found->first;
    ++rows;
  }
  EXPECT_EQ(rows, 2 * expected.size());
}

}  // namespace
}  // namespace kvloupe::figure

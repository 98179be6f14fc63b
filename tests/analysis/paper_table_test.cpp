// Tables in papers' layouts, from a results file whose values are known.

#include "analysis/study/paper_table.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/summary.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// The values of one cell, as a function of where it is.
using Values = std::function<double(const std::string& policy, const std::string& budget,
                                    const std::string& prompt)>;

class PaperTables : public testing::Test {
 protected:
  /// A results file with a task on two prompt sets of needles and one of texts.
  fs::path write(const std::string& name, const std::string& model,
                 const std::vector<std::string>& policies, const std::vector<std::string>& budgets,
                 const Values& needle, const Values& same,
                 const std::vector<std::pair<std::string, std::string>>& files = {
                     {"sets/story", "x"}}) {  // and their content
    Study study;
    study.model = model;
    study.tasks.resize(2);
    study.tasks[0].task = kNeedleTask;
    study.tasks[1].task = kPerplexityTask;
    for (const std::string& policy : policies) study.policies.push_back(parse_policy(policy));
    for (const std::string& budget : budgets) study.budgets.push_back(parse_budget(budget));
    StudyPlan plan;
    const auto add = [&](const std::string& task, const std::string& prompt, int first,
                         const std::string& content = "x") {
      StudySource source;
      source.name = task + ": " + prompt;
      source.identity = "v1:model " + content;
      source.task = task;
      plan.sources.push_back(source);
      const auto item = [&](const std::string& policy, const std::string& budget) {
        StudyItem one{.trace = static_cast<int>(plan.sources.size()) - 1,
                      .policy = policy,
                      .budget = budget,
                      .block_word = "128",
                      .block = 128,
                      .first_measure = first,
                      .compression = "regular"};
        plan.items.push_back(one);
      };
      item("full", "full");
      for (const PolicySpec& policy : study.policies) {
        for (const std::string& budget : budgets) item(policy.text(), budget);
      }
    };
    for (const std::string length : {"256", "512"}) {
      for (int sample = 0; sample < 4; ++sample)
        add(kNeedleTask, length + " tokens, depth 50 %, sample " + std::to_string(sample), 0);
    }
    for (const auto& [file, content] : files) {
      for (int line = 0; line < 3; ++line)
        add(kPerplexityTask, file + ".jsonl#" + std::to_string(line), 2, content);
    }
    const std::vector<std::string> measures = measures_of(study);
    const auto place = [&](const char* measure) {
      return static_cast<int>(std::find(measures.begin(), measures.end(), measure) -
                              measures.begin());
    };
    StudyResults results(folder_ / name, study, plan);
    for (std::size_t i = 0; i < plan.items.size(); ++i) {
      const StudyItem& item = plan.items[i];
      const StudySource& source = plan.source(item);
      const bool needles = source.task == kNeedleTask;
      const double value = (needles ? needle : same)(item.policy, item.budget, source.name);
      if (std::isnan(value)) continue;  // waits
      StudyOutcome outcome;
      outcome.item = static_cast<int>(i);
      const int measure = place(needles ? "needle_found" : "perplexity_same_top1");
      if (needles || item.budget != "full") outcome.values = {{measure, -1, -1, -1, value}};
      results.record(outcome);
    }
    return folder_ / name;
  }
  static const TableCell& cell(const FilledTable& table, const std::string& policy,
                               const std::string& budget, const std::string& column) {
    for (const FilledTable::Row& row : table.rows) {
      for (const TableCell& one : row.cells) {
        if (one.policy == parse_policy(policy).text() && one.budget == budget &&
            one.column == column) {
          return one;
        }
      }
    }
    throw std::runtime_error("no cell of " + policy + ", " + budget + ", " + column);
  }
  test::TemporaryFolder folder_;
};

/// Needles: found in the first samples of each length; h2o finds one, keydiff three, others two.
double found(const std::string& policy, const std::string&, const std::string& prompt) {
  const int sample = prompt.back() - '0';
  const int hits = policy == "full" ? 4 : policy == "h2o" ? 1 : policy == "keydiff" ? 3 : 2;
  return sample < hits ? 1.0 : 0.0;
}
double alike(const std::string& policy, const std::string&, const std::string& prompt) {
  return (policy == "keydiff" ? 0.6 : 0.7) + 0.05 * (prompt.back() - '0');
}

void expect_whole(const FilledTable& table) {
  std::size_t columns = 0;
  for (const FilledTable::Row& row : table.rows) {
    if (columns == 0) columns = row.labels.size() + row.cells.size();
    EXPECT_EQ(row.labels.size() + row.cells.size(), columns);
    EXPECT_EQ(row.labels.size(), table.upper.front().span);
  }
  std::size_t spans = 0;
  for (const Table::Head& head : table.upper) spans += head.span;
  EXPECT_EQ(spans, columns);
  EXPECT_EQ(table.columns.size(), columns);
  // LaTeX: as many cells in every line of the body, all braces closed.
  const std::string latex = table_text(table, TableForm::latex);
  EXPECT_EQ(std::count(latex.begin(), latex.end(), '{'),
            std::count(latex.begin(), latex.end(), '}'));
  EXPECT_THAT(latex, HasSubstr("\\toprule\n"));
  EXPECT_THAT(latex, HasSubstr("\\bottomrule\n"));
  // CSV: a line per number.
  const std::string csv = table_text(table, TableForm::csv);
  std::size_t cells = 0;
  for (const FilledTable::Row& row : table.rows) cells += row.cells.size();
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), cells + 1);
}

TEST(ShareInterval, WilsonsAndTheAveragesAreThoseOfTheirFormulas) {
  const MeanInterval none = wilson_share(0, 10), half = wilson_share(5, 10),
                     all = wilson_share(10, 10);
  EXPECT_EQ(none.low, 0.0);
  EXPECT_NEAR(none.high, 0.2775, 1e-4);  // z²/(n + z²)
  EXPECT_NEAR(half.low, 0.2366, 1e-4);
  EXPECT_NEAR(half.high, 0.7634, 1e-4);
  EXPECT_NEAR(all.low, 0.7225, 1e-4);
  EXPECT_EQ(all.high, 1.0);
  EXPECT_THROW(wilson_share(0, 0), std::invalid_argument);
  // The ends solve (p − share)² = z² p (1 − p) / n, which Wilson starts from.
  const MeanInterval three = wilson_share(3, 17);
  for (const double end : {three.low, three.high})
    EXPECT_NEAR(std::pow(end - 3.0 / 17, 2), 3.8414588 * end * (1 - end) / 17, 1e-8);
  const std::vector<double> numbers = {0.1, 0.9, 0.4};
  EXPECT_EQ(mean_interval(numbers).low, bootstrap_mean(numbers).low);
  EXPECT_EQ(mean_interval(std::vector<double>{0.0, 1.0}).low, wilson_share(1, 2).low);
  const std::vector<MeanInterval> means = {{1.0, 0.7, 1.6}, {3.0, 2.6, 3.8}};
  const MeanInterval average = mean_of_means(means);
  EXPECT_DOUBLE_EQ(average.mean, 2.0);
  EXPECT_DOUBLE_EQ(average.low, 2.0 - 0.25);  // √(0.3² + 0.4²) / 2
  EXPECT_DOUBLE_EQ(average.high, 2.0 + 0.5);  // √(0.6² + 0.8²) / 2
  EXPECT_THROW(mean_of_means({}), std::invalid_argument);
}

TEST(ShareInterval, OfPairsIsNewcombesAndHasAWidthWhereAllPairsAreEqual) {
  // Newcombe 1998, table III: both found, only the first, only the second, neither; method 10.
  const auto of = [](int both, int first, int second, int neither) {
    std::vector<double> a, b;
    const auto add = [&](int count, double x, double y) {
      a.insert(a.end(), static_cast<std::size_t>(count), x);
      b.insert(b.end(), static_cast<std::size_t>(count), y);
    };
    add(both, 1, 1), add(first, 1, 0), add(second, 0, 1), add(neither, 0, 0);
    return paired_interval(a, b);
  };
  EXPECT_NEAR(of(36, 12, 2, 0).low, 0.0569, 5e-5);
  EXPECT_NEAR(of(36, 12, 2, 0).high, 0.3404, 5e-5);
  EXPECT_NEAR(of(18, 14, 0, 18).low, 0.1441, 5e-5);
  EXPECT_NEAR(of(18, 14, 0, 18).high, 0.3963, 5e-5);
  EXPECT_LT(of(3, 0, 0, 0).low, -0.5);
  EXPECT_EQ(of(0, 3, 0, 0).mean, 1.0);
  EXPECT_NEAR(of(0, 3, 0, 0).low, 0.2059, 5e-5);
  // Numbers that are no shares: the bootstrap's; one number alone says nothing of its spread.
  const std::vector<double> numbers = {0.1, 0.9, 0.4}, zeros(3, 0.0), one = {0.5};
  EXPECT_EQ(paired_interval(numbers, zeros).low, bootstrap_mean(numbers).low);
  EXPECT_EQ(mean_interval(zeros, false).high, 0.0);
  EXPECT_TRUE(std::isnan(mean_interval(one).low));
  EXPECT_THROW(paired_interval(numbers, one), std::invalid_argument);
}

TEST_F(PaperTables, KeyDiffsTableHasPoliciesAndBudgetsDownAndTasksAcross) {
  const auto path =
      write("a.sqlite", "../models/small/", {"h2o", "keydiff"}, {"10%", "20%"}, found, alike);
  const FilledTable table = fill_paper_table(require_paper_table("keydiff-8"), {path});
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 1U + 6 * 2);  // the full cache, six policies at two budgets
  EXPECT_THAT(table.rows[0].labels, ElementsAre("small", ""));
  EXPECT_THAT(table.rows[1].labels, ElementsAre("H2O", "10%"));
  EXPECT_THAT(table.rows[2].labels, ElementsAre("", "20%"));
  const TableCell& one = cell(table, "keydiff", "10%", "Needles found, 256 tokens");
  EXPECT_DOUBLE_EQ(one.value->mean, 75.0);
  EXPECT_DOUBLE_EQ(one.value->low, 100 * wilson_share(3, 4).low);
  EXPECT_EQ(one.prompts, 4);
  EXPECT_TRUE(one.best);
  EXPECT_FALSE(cell(table, "h2o", "10%", "Needles found, 256 tokens").best);
  // A value that the full cache has by the measure's formula is known; one that was not run is not.
  EXPECT_EQ(cell(table, "full", "full", "Same top-1 token, story").value->mean, 100.0);
  EXPECT_FALSE(cell(table, "full", "full", "Same top-1 token, story").interval);
  EXPECT_EQ(cell(table, "full", "full", "Needles found, 512 tokens").value->mean, 100.0);
  EXPECT_TRUE(cell(table, "full", "full", "Needles found, 512 tokens").interval);
  EXPECT_FALSE(cell(table, "tova", "10%", "Needles found, 256 tokens").value);
  EXPECT_FALSE(cell(table, "tova", "10%", "Avg.").value);
  const TableCell& average = cell(table, "h2o", "20%", "Avg.");
  EXPECT_NEAR(average.value->mean, (25.0 + 25.0 + 75.0) / 3, 1e-12);
  EXPECT_TRUE(average.interval);
  const std::string markdown = table_text(table, TableForm::markdown);
  EXPECT_THAT(markdown,
              HasSubstr("**KeyDiff, table 8.** Six policies at four budgets on all tasks.\n\n| "
                        "Method | Budget | Needles found, 256 tokens "
                        "| Needles found, 512 tokens | Same top-1 token, story | Avg. |\n"));
  EXPECT_THAT(markdown, HasSubstr("| KeyDiff | 10% | **75.0** [30.1, 95.4] |"));
  EXPECT_THAT(markdown, HasSubstr("| TOVA | 10% | – | – | – | – |"));
  EXPECT_THAT(markdown, HasSubstr("Needles found, 256 tokens (4); "));
  EXPECT_THAT(markdown, HasSubstr("–: not there."));
  EXPECT_THAT(markdown, Not(HasSubstr("†")));
  const std::string csv = table_text(table, TableForm::csv);
  EXPECT_THAT(csv,
              HasSubstr("\nkeydiff-8,\"small\",regular,128,\"keydiff\",\"KeyDiff\",\"\",\"10%\","
                        "\"Needles found, 256 tokens\",needle_found,75,30.06"));
  EXPECT_THAT(csv, HasSubstr("\"tova\",\"TOVA\",\"\",\"20%\",\"Avg.\",,,,,0,0\n"));
  const std::string latex = table_text(table, TableForm::latex);
  EXPECT_THAT(latex, HasSubstr("\\multicolumn{2}{c}{Needles found} & Same top-1 token &  \\\\\n"
                               "\\cmidrule(lr){3-4}\n"));
  EXPECT_THAT(latex, HasSubstr("KeyDiff & 10\\% & \\textbf{75.0}{\\scriptsize [30.1, 95.4]} &"));
}

// The cluster bootstrap of three contexts, counted out: every draw of three is one of 27.
TEST(StudyIntervals, QuestionsOfOneContextAreDrawnTogether) {
  const std::vector<double> values = {1, 1, 0, 0, 1, 0};
  const std::vector<int> contexts = {5, 5, 5, 2, 9, 9};  // sums 2 of 3, 0 of 1, 1 of 2
  const MeanInterval one = mean_interval(values, true, contexts);
  EXPECT_DOUBLE_EQ(one.mean, 0.5);
  EXPECT_EQ(one.low, 0.0);              // three times context 2: 1 of 27, more than 2.5 %
  EXPECT_DOUBLE_EQ(one.high, 2.0 / 3);  // three times context 5
  const std::vector<int> apart = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(mean_interval(values, true, apart).low, mean_interval(values).low);
  EXPECT_TRUE(std::isnan(mean_interval(values, true, std::vector<int>(6, 1)).low));
  const std::vector<double> others = {0, 1, 1, 0, 0, 0};
  std::vector<double> differences;
  for (std::size_t i = 0; i < values.size(); ++i) differences.push_back(values[i] - others[i]);
  const MeanInterval pairs = paired_interval(values, others, true, contexts);
  EXPECT_EQ(pairs.low, mean_interval(differences, false, contexts).low);
  EXPECT_EQ(pairs.high, mean_interval(differences, false, contexts).high);
  EXPECT_THAT(context_means(values, contexts), ElementsAre(0.0, 2.0 / 3, 0.5));
}

TEST_F(PaperTables, TheBoardHasABlockOfRowsForEachBudgetAndMarksTies) {
  const auto score = [](const std::string& policy, const std::string& budget,
                        const std::string& prompt) {
    if (policy == "full") return 1.0;
    if (policy == "random") return 0.0;
    if (policy == "h2o") return budget == "25%" ? 1.0 : prompt.back() == '0' ? 0.0 : 1.0;
    return prompt.back() == '0' ? 1.0 : 0.0;  // keydiff
  };
  const auto path =
      write("a.sqlite", "m", {"random", "h2o", "keydiff"}, {"25%", "10%"}, score, alike);
  const FilledTable table = fill_paper_table(board(), {path});
  ASSERT_EQ(table.rows.size(), 8U);  // at two budgets: the full cache, two policies, chance
  EXPECT_THAT(table.rows[0].labels, ElementsAre("full"));
  EXPECT_EQ(table.rows[0].budget, "0.75 removed");
  EXPECT_THAT(table.rows[3].labels, ElementsAre("chance: random"));
  EXPECT_EQ(table.rows[4].budget, "0.9 removed");
  EXPECT_TRUE(table.rows[4].first_of_part);
  const TableCell& best = cell(table, "h2o", "10%", "Needles found, 256 tokens");
  EXPECT_TRUE(best.best);
  EXPECT_DOUBLE_EQ(best.value->mean, 75.0);
  // Of four pairs three against one: not beyond chance; none of four at the larger budget is.
  EXPECT_TRUE(cell(table, "keydiff", "10%", "Needles found, 256 tokens").ties);
  EXPECT_FALSE(cell(table, "random", "25%", "Needles found, 256 tokens").ties);
  EXPECT_FALSE(best.ties);
  const TableCell& mean = cell(table, "keydiff", "25%", "Avg.");
  EXPECT_DOUBLE_EQ(mean.value->mean, 25.0);
  const std::string markdown = table_text(table, TableForm::markdown);
  EXPECT_THAT(markdown, HasSubstr("**Board.**"));
  EXPECT_THAT(markdown, HasSubstr("*m, 0.9 removed*"));
  EXPECT_THAT(markdown, HasSubstr("Score: needle_found."));
  EXPECT_THAT(markdown, HasSubstr("256 tokens (4)"));
  EXPECT_THAT(table_text(table, TableForm::latex), HasSubstr("\\toprule"));
  const std::string csv = table_text(table, TableForm::csv);
  EXPECT_THAT(csv, HasSubstr("prompts,best,ties\n"));
  EXPECT_THAT(csv, HasSubstr(",4,0,1\n"));
  EXPECT_EQ(removed_text("128"), "128 entries kept");
}

TEST_F(PaperTables, APartOfThePromptsAndEqualCellsAreSaid) {
  const auto some = [](const std::string& policy, const std::string& budget,
                       const std::string& prompt) {
    if (policy == "keydiff" && budget == "10%" && prompt.back() == '3') return std::nan("");
    return policy == "full" ? 1.0 : 0.0;
  };
  const auto path =
      write("a.sqlite", "m", {"h2o", "keydiff", "random"}, {"10%", "20%"}, some, alike);
  const FilledTable table = fill_paper_table(require_paper_table("keydiff-8"), {path});
  const TableCell& one = cell(table, "keydiff", "10%", "Needles found, 256 tokens");
  EXPECT_EQ(one.prompts, 3);
  EXPECT_EQ(one.wanted, 4);
  EXPECT_FALSE(one.best) << "all policies are equal";
  EXPECT_FALSE(cell(table, "h2o", "10%", "Needles found, 256 tokens").best);
  const std::string markdown = table_text(table, TableForm::markdown);
  EXPECT_THAT(markdown, HasSubstr("| 0.0† [0.0, 56.1] |"));
  EXPECT_THAT(markdown, HasSubstr("†: of a part of the prompts."));
  EXPECT_THAT(markdown, HasSubstr("not in the paper's table: random."));
}

TEST_F(PaperTables, PromptFilesOfOneNameAreTwoColumns) {
  using Files = std::vector<std::pair<std::string, std::string>>;
  const auto columns = [&](const std::vector<Files>& results) {
    std::vector<fs::path> paths;
    for (const Files& files : results)
      paths.push_back(write("r" + std::to_string(paths.size()) + ".sqlite", "m", {"h2o"}, {"10%"},
                            found, alike, files));
    const FilledTable table =
        fill_paper_table(require_paper_table("keydiff-8"), paths, {"", {"perplexity_same_top1"}});
    for (const auto& path : paths) fs::remove(path);
    std::vector<std::string> names;
    for (const TableCell& one : table.rows.front().cells) {
      if (one.column != "Avg.") names.push_back(one.column.substr(one.column.rfind(", ") + 2));
    }
    return names;
  };
  EXPECT_THAT(columns({{{"4096/val", "a"}, {"8192/val", "b"}}}),
              ElementsAre("4096/val", "8192/val"));
  EXPECT_THAT(columns({{{"x/4096/val", "a"}, {"y/4096/val", "a"}}}),
              ElementsAre("x/4096/val", "y/4096/val"))
      << "a copy is another file";
  EXPECT_THAT(columns({{{"../sets/val", "a"}, {"sets/val", "b"}}}),
              ElementsAre("../sets/val", "sets/val"));
  EXPECT_THAT(columns({{{"4096/val", "a"}}, {{"sets/val", "a"}}}), ElementsAre("val"))
      << "in two results files, the content tells";
  EXPECT_THAT(columns({{{"4096/val", "a"}}, {{"8192/val", "b"}}}),
              ElementsAre("4096/val", "8192/val"));
  EXPECT_THAT(columns({{{"val", "a"}}, {{"val", "b"}}}),
              ElementsAre(HasSubstr("r0.sqlite"), HasSubstr("r1.sqlite")));
}

TEST_F(PaperTables, ASummaryHasDifferencesFromTheFullCacheAndFromTheFirstPolicy) {
  const auto path = write(
      "a.sqlite", "m", {"keydiff", "h2o"}, {"10%"},
      [](const std::string& policy, const std::string&, const std::string&) {
        return policy == "keydiff" ? 0.0 : 1.0;
      },
      alike);
  StudyResults results(path);
  const std::string summary = summary_markdown(summarise(results));
  EXPECT_THAT(summary,
              HasSubstr("needle_found\n\n| policy | budget | block | traces | mean [95 %] | "
                        "less full [95 %], paired | less keydiff [95 %], paired |\n"));
  // 8 of 8 and 0 of 8: Wilson's intervals, and Newcombe's of the pairs.
  EXPECT_THAT(summary, HasSubstr("| full | full | 128 | 8 | 1 [0.6756, 1] |  |  |\n"));
  EXPECT_THAT(summary, HasSubstr("| keydiff | 10% | 128 | 8 | 0 [0, 0.3244] | -1 [-1, -0.5412] |"
                                 "  |\n"));
  EXPECT_THAT(summary, HasSubstr("| h2o | 10% | 128 | 8 | 1 [0.6756, 1] | 0 [-0.3244, 0.3244] | "
                                 "1 [0.5412, 1] |\n"));
  // The full cache has no value of this measure, and three texts are few.
  EXPECT_THAT(summary, HasSubstr("mean [95 %] | less keydiff [95 %], paired |\n"));
  EXPECT_THAT(summary, HasSubstr("Fewer than 10 traces"));
}

TEST_F(PaperTables, CaotesTableHasGroupsOfPoliciesAcrossAndModelsDown) {
  const std::vector<std::string> policies = {"h2o", "h2o+caote", "h2o+fastcaote", "tova"};
  const auto a = write("a.sqlite", "one", policies, {"10%", "20%"}, found, alike);
  const auto b = write("b.sqlite", "two", policies, {"20%"}, found, alike);
  const FilledTable table = fill_paper_table(require_paper_table("caote-5"), {a, b});
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 4U);  // both budgets of both models
  EXPECT_EQ(table.rows[0].cells.size(), 9U);
  const TableCell& one = cell(table, "h2o+caote", "10%", "Needles found");
  EXPECT_EQ(one.prompts, 8);  // of both lengths
  EXPECT_DOUBLE_EQ(one.value->mean, 0.5);
  EXPECT_TRUE(one.best);
  EXPECT_EQ(table.rows[2].model, "two");
  EXPECT_FALSE(table.rows[2].cells[0].value) << "the second model has no run at 10%";
  const std::string markdown = table_text(table, TableForm::markdown);
  EXPECT_THAT(markdown, HasSubstr("| Budget | H2O | H2O, +CAOTE | H2O, +FastCAOTE | TOVA |"));
  EXPECT_THAT(markdown, HasSubstr("| *two, regular* |"));
  EXPECT_THAT(markdown, HasSubstr("**0.500** [0.215, 0.785]"));
}

TEST_F(PaperTables, CriticalKvsTableComparesWithinAGroup) {
  const auto path = write(
      "a.sqlite", "m",
      {"snapkv(pool=max)", "snapkv(pool=max)+critical", "snapkv(pool=max)+adakv",
       "snapkv(pool=max)+adakv+critical"},
      {"20%", "40%"},
      [](const std::string& policy, const std::string&, const std::string& prompt) {
        const bool critical = policy.find("critical") != std::string::npos;
        const bool ada = policy.find("adakv") != std::string::npos;
        return prompt.back() - '0' < 1 + (critical ? 1 : 0) + (ada ? 1 : 0) ? 1.0 : 0.0;
      },
      alike);
  const FilledTable table = fill_paper_table(require_paper_table("criticalkv-1"), {path});
  expect_whole(table);
  ASSERT_EQ(table.rows.size(), 4U);  // two lengths, texts, their average
  EXPECT_EQ(table.rows[0].cells.size(), 1U + 2 * 2 * 2);
  EXPECT_EQ(table.upper[2].text, "SnapKV b = 20%");
  EXPECT_EQ(table.upper[2].span, 2U);
  // The best of each pair, not of the row.
  EXPECT_TRUE(cell(table, "snapkv(pool=max)+critical", "20%", "Needles found, 256 tokens").best);
  EXPECT_TRUE(
      cell(table, "snapkv(pool=max)+adakv+critical", "20%", "Needles found, 256 tokens").best);
  EXPECT_FALSE(cell(table, "snapkv(pool=max)+adakv", "20%", "Needles found, 256 tokens").best);
  EXPECT_THAT(table.rows[3].labels, ElementsAre("Ave."));
  EXPECT_NEAR(table.rows[3].cells[1].value->mean, (25.0 + 25.0 + 75.0) / 3, 1e-9);
}

TEST_F(PaperTables, WhatIsAskedForAndIsNotThereIsSaid) {
  const auto path = write("a.sqlite", "m", {"h2o"}, {"10%"}, found, alike);
  const auto said = [](const std::function<void()>& work) -> std::string {
    return test::error_of<UsageError>(work);
  };
  const PaperTable& table = require_paper_table("keydiff-8");
  EXPECT_THAT(said([] { require_paper_table("keydif-8"); }),
              HasSubstr("the nearest is 'keydiff-8'"));
  EXPECT_THAT(said([&] {
                fill_paper_table(table, {path}, {"64", {}});
              }),
              HasSubstr("--block 64: the results have blocks of 128"));
  EXPECT_THAT(said([&] {
                fill_paper_table(table, {path}, {"", {"loss"}});
              }),
              HasSubstr("--measures loss: the results have needle_found"));
  EXPECT_THAT(said([] { table_form("table.xlsx"); }), HasSubstr("written as .md, .csv or .tex"));
  // Another measure, with its own number of digits; one column has no average.
  const FilledTable losses = fill_paper_table(table, {path}, {"128", {"perplexity_loss"}});
  EXPECT_EQ(losses.rows[0].cells.size(), 1U);
  expect_whole(losses);
}

TEST(PaperTableCatalogue, EveryPolicyIsOneAndNoneIsThereTwice) {
  for (const PaperTable& table : paper_tables()) {
    std::vector<std::string> specs;
    for (const PaperPolicy& policy : table.policies) {
      const std::string text = parse_policy(policy.spec).text();
      EXPECT_EQ(std::count(specs.begin(), specs.end(), text), 0) << table.name << " " << text;
      specs.push_back(text);
    }
    EXPECT_EQ(&require_paper_table(table.name), &table);
  }
}

}  // namespace
}  // namespace kvloupe

// The report of a study: its sentences, what it says of a results file, and how it is set.

#include "app/report/report.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "app/plot/ticks.h"
#include "tests/app/cli_call.h"
#include "tests/figure/well_formed.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe::report {
namespace {

using testing::AnyOf;

// --- the sentences

constexpr const char* kPromptsInWords = "30 prompts: set.jsonl; 900 tokens";

/// Budgets of 10, 20 and 40 % with these means and bounds; the promise as advise() makes it.
PolicyAdvice made_policy(const std::string& name, std::vector<std::pair<double, double>> losses,
                         double at_most, long prompts = 30) {
  PolicyAdvice one;
  one.policy = name;
  one.prompts = prompts;
  const std::vector<std::pair<const char*, double>> budgets{
      {"10%", 90}, {"20%", 180}, {"40%", 360}};
  for (std::size_t b = 0; b < losses.size(); ++b)
    one.budgets.push_back(
        {budgets[b].first, budgets[b].second, losses[b].first, NAN, NAN, losses[b].second, 1});
  for (int b = static_cast<int>(losses.size()) - 1; b >= 0; --b) {
    if (losses[b].second > at_most) break;
    one.promised = b;
  }
  return one;
}

std::vector<std::string> sentences_of(std::vector<PolicyAdvice> policies, double at_most,
                                      long needed = 20, bool replays = false) {
  Advice advice{.measure = "answer_found",
                .block = "128",
                .loss = "1 − answer_found",
                .risk = 0.05 / static_cast<double>(policies.size()),
                .needed = needed,
                .policies = std::move(policies)};
  AdviceRequest request{.measure = advice.measure, .at_most = at_most, .together = true};
  return recommendation_of(advice, request, kPromptsInWords, replays);
}

TEST(ReportSentences, TheFewestEntriesThatArePromised) {
  const auto said = sentences_of({made_policy("tova", {{.3, .4}, {.1, .3}, {.02, .09}}, 0.2),
                                  made_policy("keydiff", {{.2, .35}, {.05, .18}, {.01, .08}}, 0.2)},
                                 0.2);
  EXPECT_THAT(
      said,
      ElementsAre(
          "Use keydiff with a budget of 20% of the prompt (180 entries per head on average): the "
          "expected loss (1 − answer_found) on new prompts is then at most 0.2, and the risk that "
          "any promise of this report is wrong is at most 5 % for all 2 policies together.",
          "On the 30 prompts with values at all budgets its mean loss is 0.05, and the bound of "
          "the "
          "expected loss is 0.18; at 10%, the next smaller budget, the bound is 0.35, above the "
          "limit.",
          "This holds for prompts drawn like these (30 prompts: set.jsonl; 900 tokens), for this "
          "model and blocks of 128 tokens, and not for other tasks, longer prompts or other "
          "models."));
}

TEST(ReportSentences, OfEqualBudgetsTheSmallestBoundAndTheOthersAreNamed) {
  const auto said =
      sentences_of({made_policy("h2o", {{.1, .19}}, 0.2), made_policy("sink", {{.2, .4}}, 0.2),
                    made_policy("tova", {{.05, .15}}, 0.2)},
                   0.2, 20, true);
  EXPECT_THAT(said[0], StartsWith("Use tova with a budget of 10%"));
  EXPECT_THAT(said[1], AllOf(HasSubstr("smaller budgets were not tested"),
                             HasSubstr("promised with h2o as well"), Not(HasSubstr("sink"))));
  // The states of a full run, not the model's answers.
  EXPECT_THAT(said[2], HasSubstr("not of the model's own answers"));
}

TEST(ReportSentences, WhereNoBudgetIsPromisedTheClosestAndWhetherPromptsWouldHelp) {
  const auto far = sentences_of({made_policy("h2o", {{.9, 1}, {.5, .7}, {.3, .5}}, 0.1),
                                 made_policy("tova", {{.9, 1}, {.4, .6}, {.2, .374}}, 0.1)},
                                0.1);
  EXPECT_THAT(far[0], StartsWith("No budget of this study can be recommended"));
  EXPECT_THAT(far[1],
              AllOf(HasSubstr("the smallest bound at the largest budget is 0.374, of tova "
                              "at 40% (mean loss 0.2 on 30 prompts)"),
                    HasSubstr("can promise --at-most 0.38"), HasSubstr("larger budgets may")));
  const auto near = sentences_of({made_policy("h2o", {{.05, .2}}, 0.1)}, 0.1);
  EXPECT_THAT(near[0], HasSubstr("at a risk of 5 %."));  // of one policy
  EXPECT_THAT(near[1], HasSubstr("more prompts may bring the bound within the limit"));
  EXPECT_THAT(near[2], StartsWith("All numbers are for prompts drawn like these"));
}

TEST(ReportSentences, TooFewPromptsSayHowManyItTakes) {
  const auto said = sentences_of(
      {made_policy("h2o", {{0, .39}}, 0.05, 10), made_policy("tova", {{.5, .9}}, 0.05, 9)}, 0.05,
      73);
  EXPECT_THAT(said[0], AllOf(HasSubstr("it has 10 prompts with all budgets"),
                             HasSubstr("at most 0.05"), HasSubstr("takes at least 73 prompts")));
  EXPECT_THAT(said[1], HasSubstr("--at-most 0.39"));
  const auto nothing = sentences_of({made_policy("h2o", {}, 0.05, 0)}, 0.05, 59);
  EXPECT_THAT(nothing[1], HasSubstr("no prompt has values at all budgets yet"));
  EXPECT_EQ(nothing.size(), 3U);
}

// --- a results file

struct ReportOfStudy : testing::Test, test::MadeStudy {
  Report make(const AdviceRequest& advice = {}) const {
    return make_report(path_.string(), {advice, {"report.html"}}, test::unwatched);
  }
  static AdviceRequest asked(const std::string& measure, double at_most, double largest = 0.0) {
    return AdviceRequest{.measure = measure, .at_most = at_most, .largest = largest};
  }
  std::string refusal(const AdviceRequest& advice = {}) const {
    return test::error_of<std::runtime_error>([&] { make(advice); });
  }
  static const figure::document::Section& part(const Report& report, const std::string& title) {
    const auto found = std::find_if(report.sections.begin(), report.sections.end(),
                                    [&](const auto& one) { return one.title == title; });
    EXPECT_NE(found, report.sections.end()) << title;
    return *found;
  }
  static std::vector<std::string> cells(const Table& table, std::size_t row) {
    std::vector<std::string> texts;
    for (const Table::Cell& cell : table.rows[row].cells) texts.push_back(cell.text);
    return texts;
  }
};

TEST_F(ReportOfStudy, ChoosesALossAndALimitAndSaysSo) {
  EXPECT_THAT(make().cautions,
              Contains(AllOf(
                  HasSubstr("takes perturbation_l1. The study does not have the model's answers"),
                  HasSubstr("How well it foretold the answers of SmolLM2"),
                  HasSubstr("such as retained_mass"))));
  const Report report = make(asked("retained_mass", 0.0));
  EXPECT_EQ(report.title, "Which policy, and which budget? 3 policies on 8 traces");
  EXPECT_THAT(report.cautions, Contains(HasSubstr("takes 0.1.")));
  ASSERT_EQ(report.lead.size(), 3U);
  // ⌈ln(0.05 / 3) / ln 0.9⌉
  EXPECT_THAT(report.lead[0], AllOf(HasSubstr("it has 8 prompts with all budgets"),
                                    HasSubstr("takes at least 39 prompts")));
  EXPECT_THAT(report.lead[2], HasSubstr("(8 traces: *.h5; about 200 tokens)"));
  const figure::document::Section& facts = part(report, "What was studied");
  EXPECT_THAT(facts.facts,
              Contains(std::pair<std::string, std::string>("Progress", "all 224 items are done")));
  EXPECT_THAT(facts.facts, Contains(std::pair<std::string, std::string>(
                               "Budgets",
                               "10%, 25%, 50% of the prompt (20 to 100 entries per head "
                               "on average)")));
}

TEST_F(ReportOfStudy, RecommendsWhatAdviseSaysOfAllPoliciesTogether) {
  AdviceRequest request = asked("retained_mass", 0.75);
  const Report report = make(request);
  request.together = true;
  const Advice advice = advise(read_study_table(path_), request);
  // The plain rule, beside recommended_policy().
  const PolicyAdvice* best = nullptr;
  for (const PolicyAdvice& one : advice.policies) {
    if (one.promised < 0) continue;
    const auto key = [](const PolicyAdvice& policy) {
      const BudgetRisk& at = policy.budgets[policy.promised];
      return std::pair(at.entries, at.bound);
    };
    if (best == nullptr || key(one) < key(*best)) best = &one;
  }
  ASSERT_NE(best, nullptr);
  const BudgetRisk& at = best->budgets[best->promised];
  EXPECT_THAT(report.lead[0], StartsWith(fmt::format("Use {} with a budget of {} of the prompt",
                                                     best->policy, at.budget)));
  EXPECT_THAT(report.lead[1], HasSubstr(fmt::format("is {:.3g}", at.bound)));
  const figure::document::Section& promises = part(report, "Which budget can be promised");
  ASSERT_TRUE(!promises.figures.empty() && promises.table);
  ASSERT_EQ(promises.table->rows.size(), advice.policies.size());
  EXPECT_THAT(cells(*promises.table, 0),
              ElementsAre(best->policy, at.budget, fmt::format("{:.0f}", at.entries),
                          fmt::format("{:.3g}", at.mean), fmt::format("{:.3g}", at.bound), "8"));
  EXPECT_THAT(promises.figures[0].caption, HasSubstr("at most 5 % for all policies together"));
  EXPECT_THAT(report.cautions, IsEmpty());
  EXPECT_THAT(part(report, "How to repeat it").commands,
              AllOf(Contains("kvloupe advise " + path_.string() +
                             " --loss retained_mass --at-most 0.75 --risk 5% --together"),
                    Contains("kvloupe report " + path_.string() +
                             " --loss retained_mass --at-most 0.75 --risk 5% -o report.html"),
                    Contains(HasSubstr("--figure certificate --set at-most=0.75")),
                    Contains(HasSubstr("kvloupe study run STUDY.json -o ")),
                    Contains(HasSubstr("kvloupe-capture study STUDY.json -o "))));
}

TEST_F(ReportOfStudy, TheHeadsThatLoseMostByTheMeasureThatForetells) {
  const Report report = make();
  const figure::document::Section& heads = part(report, "Heads that matter");
  // perturbation_l1 foretold answers better than retained_mass did.
  EXPECT_THAT(heads.text[0].runs[0].text,
              HasSubstr("ranked by perturbation_l1, because the study lacks"));
  ASSERT_TRUE(!heads.figures.empty() && heads.table);
  EXPECT_EQ(heads.figures[0].info->name, "head-scatter");
  // The smallest mean.
  ASSERT_THAT(heads.table->notes[0], StartsWith("h2o, 50%, 8 traces"));
  std::vector<std::pair<double, std::string>> means;
  for (const auto& [layer, head] : test::cells(test::kStudyLayers, test::kStudyHeads)) {
    double sum = 0.0;
    for (int prompt = 0; prompt < test::kStudyPrompts; ++prompt)
      sum += test::study_value(prompt, 0, 2, layer, head);
    means.emplace_back(-sum / test::kStudyPrompts, fmt::format("{}.{}", layer, head));
  }
  std::sort(means.begin(), means.end());
  ASSERT_EQ(heads.table->rows.size(), 5U);
  for (std::size_t i = 0; i < 2; ++i) {  // the first two differ from all others
    EXPECT_EQ(cells(*heads.table, i)[0], means[i].second);
    EXPECT_THAT(cells(*heads.table, i)[1],
                StartsWith(figure::format_number(-means[i].first) + " ["));
  }
}

TEST_F(ReportOfStudy, TakesTheAnswersAndSaysHowWellTheReplaysForetoldThem) {
  // Runs in the model of the prompts that were replayed; those with keydiff find no answer at 10 %.
  change(
      "UPDATE traces SET name = replace(name, 't', 'p') WHERE name LIKE 't_.h5';"
      "UPDATE measures SET name = 'answer_found' WHERE name = 'perplexity_loss';"
      "UPDATE measures SET name = 'answer_residual_part' WHERE name = 'retained_mass';"
      "UPDATE items SET task = 'answer' WHERE task = 'perplexity';"
      "UPDATE replay_values SET value = 1 WHERE measure = 3; UPDATE replay_values SET value = 0 "
      "WHERE "
      "measure = 3 AND item IN (SELECT item FROM items WHERE policy = 'keydiff' AND budget = "
      "'10%');"
      "UPDATE settings SET value = '/home/someone/models/made-1B/' WHERE name = 'model'");
  const Report report = make();
  EXPECT_THAT(report.cautions,
              Contains(HasSubstr("takes answer_found. It counts the model's own answers")));
  const figure::document::Section& foretold =
      part(report, "How well the replays foretold these runs");
  ASSERT_TRUE(foretold.table);
  EXPECT_EQ(foretold.table->rows.size(), 2U);
  EXPECT_THAT(foretold.table->notes[0], HasSubstr("Beside answer_found, on 8 prompts"));
  // None of 8 prompts loses: Wilson's interval has a width all the same.
  const MeanInterval none = wilson_share(0, 8);
  const figure::document::Section& promises = part(report, "Which budget can be promised");
  EXPECT_EQ(cells(*promises.table, 0)[3], fmt::format("0 [0, {:.3g}]", none.high));
  EXPECT_THAT(report.lead[1], HasSubstr("of h2o, keydiff, snapkv+critical at 50%"));
  // The number of a head that finds proofs best, whatever foretells the answers here.
  EXPECT_THAT(part(report, "Heads that matter").text[0].runs[0].text,
              HasSubstr("by answer_residual_part, as in"));
  EXPECT_THAT(part(report, "What was studied").facts[0].second, StartsWith("made-1B ("));
  EXPECT_THAT(report_file(report, "r.html", figure::TextMetrics{}), Not(HasSubstr("someone")));
  EXPECT_THAT(make(asked("answer_found", 0.9)).lead[0],
              StartsWith("Use any of h2o, snapkv+critical (they tie) with a budget of 10%"));
}

TEST_F(ReportOfStudy, AMeasureWithoutALimitHasCurvesAndNoPromise) {
  const Report report = make(asked("perturbation_l1", 0.0));
  EXPECT_THAT(report.lead[0],
              AllOf(StartsWith("This report recommends no budget"), HasSubstr("--largest")));
  EXPECT_THAT(report.lead[1], HasSubstr("The smallest mean of perturbation_l1 is"));
  for (const figure::document::Section& one : report.sections)
    EXPECT_NE(one.title, "Which budget can be promised");
  // With both numbers it has one.
  EXPECT_THAT(make(asked("perturbation_l1", 2.5, 3.0)).lead[0], StartsWith("Use "));
  EXPECT_THAT(refusal(asked("perturbation_l1", 2.5)),
              AllOf(StartsWith("report: "), HasSubstr("--largest")));
}

TEST_F(ReportOfStudy, RunsInTheModelNameTheFullCache) {
  const Report report = make(asked("perplexity_loss", 2.9, 6.0));
  EXPECT_EQ(report.title, "Which policy, and which budget? 3 policies on 8 prompts");
  EXPECT_THAT(report.cautions, Contains(HasSubstr("The full cache itself has a mean loss of 2 on 8 "
                                                  "prompts")));
  EXPECT_THAT(report.lead[2], Not(HasSubstr("replays")));
}

TEST_F(ReportOfStudy, ALossThatRisesWithTheBudgetIsSaid) {
  change(
      "UPDATE replay_values SET value = 0.1 WHERE measure = 1 AND item IN (SELECT item FROM items "
      "WHERE policy = 'h2o' AND budget = '50%')");
  const Report report = make(asked("retained_mass", 0.99));
  EXPECT_THAT(report.cautions,
              Contains(HasSubstr("The mean loss rises with the budget: h2o from 25% to 50%.")));
}

TEST_F(ReportOfStudy, AnUnfinishedStudySaysHowFarItIs) {
  change(
      "UPDATE items SET state = 'waiting' WHERE item >= 144; DELETE FROM replay_values WHERE item "
      ">= 144");
  EXPECT_THAT(make().cautions, Contains(HasSubstr("not finished: 144 of 224 items are done")));
}

TEST_F(ReportOfStudy, RefusesInOneLine) {
  EXPECT_THAT(refusal(asked("answer_found", 0.1)),
              HasSubstr("the study has no values of answer_found; it has perturbation_l1, "));
  AdviceRequest other = asked("retained_mass", 0.1);
  other.block = "64";
  EXPECT_THAT(refusal(other), HasSubstr("has no block 64; it has capture"));
  EXPECT_THAT(refusal(asked("retained_mass", 1.5)), HasSubstr("lies between 0 and 1"));
  change("INSERT INTO models SELECT trace, 'v1:' || (trace % 2) FROM traces WHERE trace < 2");
  EXPECT_THAT(refusal(), HasSubstr("has traces of 2 models, such as t0.h5 and t1.h5"));
  change(
      "DELETE FROM models; INSERT INTO prompts VALUES (1, '{\"fingerprint\": \"v1:a\"}'), (2, "
      "'{\"fingerprint\": \"v1:b\"}')");
  EXPECT_THAT(refusal(), HasSubstr("has prompts of 2 models"));
  change(
      "DELETE FROM prompts; UPDATE items SET state = 'waiting'; DELETE FROM replay_values; DELETE "
      "FROM head_values");
  EXPECT_THAT(refusal(), HasSubstr("has no values yet (0 of 224 items are done)"));
  std::ofstream(folder_ / "study.sqlite") << "{}";
  EXPECT_NE(refusal(), "");
  EXPECT_THAT(refusal(), Not(HasSubstr("\n")));
}

// --- pages

TEST(ReportTables, WideColumnsGiveWayUntilAllFit) {
  const auto fitted = [](std::vector<double> widths) {
    figure::document::fit_columns(widths, 100.0);
    return widths;
  };
  EXPECT_THAT(fitted({20, 30, 40}), ElementsAre(20, 30, 40));
  EXPECT_THAT(fitted({200, 10, 10}), ElementsAre(80, 10, 10));
  EXPECT_THAT(fitted({200, 300, 20, 80, 10}),
              ElementsAre(23.333333333333332, 23.333333333333332, 20, 23.333333333333332, 10));
}

/// The pages of a PDF as Cairo writes it.
long pages_of(const std::string& pdf) {
  long count = 0;
  for (std::size_t at = pdf.find("/Type /Page"); at != std::string::npos;
       at = pdf.find("/Type /Page", at + 1))
    count += pdf[at + std::string_view("/Type /Page").size()] == 's' ? 0 : 1;
  return count;
}

TEST_F(ReportOfStudy, TwoPagesAndOneFileThatLoadsNothing) {
  const figure::TextMetrics fonts;
  const Report report = make(asked("retained_mass", 0.75));
  EXPECT_EQ(pages_of(report_file(report, "r.pdf", fonts)), 2);
  const std::string html = report_file(report, "r.html", fonts);
  EXPECT_EQ(test::why_not_well_formed(html), "");
  EXPECT_THAT(html, AllOf(HasSubstr("prefers-color-scheme:dark"), HasSubstr("default-src 'none'"),
                          Not(HasSubstr("<script")), Not(HasSubstr("src=")),
                          Not(HasSubstr("href=\"http"))));
  for (const std::string& sentence : report.lead) EXPECT_THAT(html, HasSubstr(sentence));
  EXPECT_THROW(report_file(report, "r.png", fonts), UsageError);
}

TEST_F(ReportOfStudy, NamesFromTheFileAreTextAndNothingElse) {
  const std::string hostile = "<script>alert(1)</script>&\"'" + std::string(200, 'x');
  change(
      "UPDATE items SET policy = '" + std::string("<script>alert(1)</script>&\"''") +
      std::string(200, 'x') +
      "' WHERE policy = 'h2o'; UPDATE traces SET name = '<img src=x>' || char(10) || name; UPDATE "
      "items SET budget = '<b>' WHERE budget = '10%'; UPDATE measures SET name = '<i>' WHERE "
      "measure = 3; UPDATE settings SET value = '</style><svg onload=1>' WHERE name = 'model'");
  const figure::TextMetrics fonts;
  for (const Report& report : {make(), make(asked("drift_agreement", 0.9))}) {
    const std::string html = report_file(report, "r.html", fonts);
    EXPECT_EQ(test::why_not_well_formed(html), "");
    EXPECT_THAT(html, AllOf(HasSubstr("&lt;script&gt;alert(1)"), Not(HasSubstr("<script")),
                            Not(HasSubstr("<img")), Not(HasSubstr("<b>")), Not(HasSubstr("<i>")),
                            Not(HasSubstr("onload=1>"))));
    EXPECT_THAT(pages_of(report_file(report, "r.pdf", fonts)), AnyOf(2, 3));
  }
}

// --- the command

struct CliReport : ReportOfStudy {
  static test::Called call(const std::vector<std::string>& arguments) {
    test::Called called = test::call({"report"}, arguments);
    EXPECT_EQ(called.out, "");
    return called;
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string content(const std::string& name) const { return test::file_text(folder_ / name); }
};

TEST_F(CliReport, WritesBothFilesOrNone) {
  const std::string results = path_.string();
  const test::Called written = call({results, "--loss", "retained_mass", "--at-most", "0.75",
                                     "--risk", "10%", "-o", file("r.html"), "-o", file("r.pdf")});
  EXPECT_EQ(written.code, 0) << written.error;
  EXPECT_THAT(content("r.html"), HasSubstr("is at most 10 % for all 3 policies together"));
  EXPECT_THAT(content("r.pdf"), StartsWith("%PDF-"));

  const auto refused = [&](std::vector<std::string> more, int code, const std::string& said) {
    more.insert(more.begin(), results);
    const test::Called outcome = call(std::move(more));
    EXPECT_EQ(outcome.code, code);
    EXPECT_THAT(outcome.error, HasSubstr(said));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
  };
  refused({"-o", file("x.png")}, 2, "must end in .html or .pdf");
  refused({"-o", file("x.html"), "-o", file("./x.html")}, 2, "is given twice");
  refused({"-o", file("x.html"), "--risk", "often"}, 2, "report: write a risk such as 5%");
  refused({"-o", file("x.html"), "--loss", "retained_mas"}, 2, "has no values of retained_mas");
  refused({"-o", file("no/x.html")}, 1, "x.html");
  std::filesystem::rename(path_, folder_ / "results.html");
  EXPECT_EQ(call({file("results.html"), "-o", file("results.html")}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.html"));
}

}  // namespace
}  // namespace kvloupe::report

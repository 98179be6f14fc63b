// Heads over the prompts of a study: means and intervals, roles and contexts beside naive ones, and
// results of an earlier layout.

#include "analysis/base/text/unknown.h"
#include "analysis/math/head_roles.h"
#include "analysis/study/database.h"
#include "analysis/study/merge_results.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_statistics.h"
#include "app/document/figure_file.h"
#include "tests/figure/made_figures.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using Row = std::map<std::string, std::string>;

MadeFigure head_figure(const fs::path& path, const std::string& name, const Choices& choices = {},
                       int layer = 0, int head = 0) {
  request::FigureSettings settings{.layer = layer, .head = head, .choices = choices};
  const request::FigureMaker maker(test::results_of(path));
  return maker.make(find_figure(name), settings, test::unwatched);
}

std::string head_refusal(const fs::path& path, const std::string& name, const Choices& choices = {},
                         int layer = 0, int head = 0) {
  return test::error_of<std::exception>([&] { head_figure(path, name, choices, layer, head); });
}

TEST(StudentMean, HasTheQuantilesOfTables) {
  EXPECT_NEAR(student_t95(1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t95(4), 2.77645, 1e-5);
  EXPECT_NEAR(student_t95(29), 2.04523, 1e-5);
  EXPECT_NEAR(student_t95(1000), 1.96234, 1e-5);
}

TEST(StudentMean, IsOfKnownValuesAndNeedsTwoForAnInterval) {
  const std::vector<double> values = {1.0, kUnknown, 3.0, 5.0};
  const StudentMean mean = student_mean(values);
  EXPECT_EQ(mean.count, 3);
  EXPECT_NEAR(mean.mean, 3.0, 1e-12);
  EXPECT_NEAR(mean.high - mean.mean, 4.302653 * 2.0 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(mean.mean - mean.low, mean.high - mean.mean, 1e-12);
  const std::vector<double> one = {2.0};
  EXPECT_EQ(student_mean(one).mean, 2.0);
  EXPECT_TRUE(std::isnan(student_mean(one).low));
  EXPECT_TRUE(std::isnan(student_mean({}).mean));
}

/// The results of the synthetic study, in which every value is known by a formula.
struct HeadScatterFigure : testing::Test, test::MadeStudy {};

TEST_F(HeadScatterFigure, HasMeansAndStudentsIntervalsOfEveryHead) {
  constexpr double kT7 = 2.36462425;  // of tables, 7 degrees of freedom
  const MadeFigure made = head_figure(path_, "head-scatter",
                                      {{"x", "retained_mass"},
                                       {"y", "perturbation_l1"},
                                       {"colour", "drift_agreement"},
                                       {"policy", "keydiff"},
                                       {"budget", "50%"}});
  const auto rows = test::csv_rows(*made.figure);
  ASSERT_EQ(rows.size(), 6U);
  for (const Row& row : rows) {
    const int layer = std::stoi(row.at("layer")), head = std::stoi(row.at("head"));
    double sum = 0.0, squares = 0.0;
    for (int prompt = 0; prompt < 8; ++prompt) sum += test::study_value(prompt, 1, 2, layer, head);
    const double mean = sum / 8;
    for (int prompt = 0; prompt < 8; ++prompt)
      squares += std::pow(test::study_value(prompt, 1, 2, layer, head) - mean, 2);
    const double half = kT7 * std::sqrt(squares / 7) / std::sqrt(8.0);
    EXPECT_NEAR(test::csv_number(row, "y"), mean, 1e-8);
    EXPECT_NEAR(test::csv_number(row, "y_low_95"), mean - half, 1e-7);
    EXPECT_NEAR(test::csv_number(row, "y_high_95"), mean + half, 1e-7);
    EXPECT_EQ(row.at("y_prompts"), "8");
    EXPECT_NEAR(test::csv_number(row, "x"), 1.0 - mean / 4, 1e-8);
    EXPECT_NEAR(test::csv_number(row, "x_high_95"), 1.0 - mean / 4 + half / 4, 1e-7);
    EXPECT_NEAR(test::csv_number(row, "colour"), 1.0 - mean / 8, 1e-8);
  }
  // Both measures follow from one value, so the heads' orders are opposite.
  EXPECT_THAT(made.figure->caption(), HasSubstr("ρ over the heads: −1.00"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("keydiff, budget 50%"));
  Target target;
  target.layer = 1;
  target.head = 1;
  EXPECT_THAT(made.figure->value_text(target), HasSubstr("Retained attention mass 0."));
  EXPECT_THAT(made.figure->value_text(target), HasSubstr(" to "));
}

TEST_F(HeadScatterFigure, EveryHeadIsAPointThatThePointerFindsOnTheScreenAndOnPaper) {
  change("UPDATE head_values SET value = value + 0.01 * layer");  // no two heads at one place
  const FigureInfo& info = find_figure("head-scatter");
  const MadeFigure made = head_figure(path_, "head-scatter");
  for (const double width : {85.0, 178.0}) {
    FileOptions options{.size = parse_page_size(width < 100.0 ? "85x70mm" : "178x110mm")};
    const Scene scene = page_of(info, made, options, test::fonts());
    std::size_t points = 0;
    for (const PickPoints& set : scene.point_sets) {
      for (std::size_t i = 0; i < set.points.size(); ++i, ++points) {
        const auto found = scene.pick(set.points[i]);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->layer, set.target(i).layer);
        EXPECT_EQ(found->head, set.target(i).head);
      }
    }
    EXPECT_EQ(points, 6U) << width;
  }
}

TEST_F(HeadScatterFigure, WhatIsMissingIsSaidInOneLineWithWhatThereIs) {
  EXPECT_THAT(head_refusal(path_, "head-scatter", {{"y", "perturbation_l2"}}),
              HasSubstr("y=perturbation_l2: figure head-scatter: the study has no such measure by "
                        "head; did you mean 'perturbation_l1'? It has: perturbation_l1, "
                        "retained_mass, drift_agreement"));
  EXPECT_THAT(head_refusal(path_, "head-scatter", {{"x", "perplexity_loss"}}),
              HasSubstr("no such measure by head"));
  EXPECT_THAT(head_refusal(path_, "head-scatter", {{"policy", "tova"}}),
              HasSubstr("It has: h2o, keydiff"));
  EXPECT_THAT(head_refusal(path_, "head-profile", {}, 7, 0),
              HasSubstr("head 7.0: figure head-profile: the study has no such head of measure "
                        "perturbation_l1; its heads go from 0.0 to 2.1"));
  for (const std::string& why : {head_refusal(path_, "head-profile", {{"measure", "x"}}),
                                 head_refusal(path_, "head-profile", {}, 0, 2)}) {
    EXPECT_NE(why, "");
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST_F(HeadScatterFigure, AMeasureThatIsEqualForAllHeadsRanksNone) {
  change("UPDATE measures SET name = 'answer_residual_change' WHERE name = 'retained_mass'");
  for (const auto& [name, choice] :
       {std::pair{"head-scatter", "x"}, {"head-profile", "measure"}, {"study-heads", "measure"}}) {
    EXPECT_THAT(head_refusal(path_, name, {{choice, "answer_residual_change"}}),
                AllOf(HasSubstr("all heads have the same value"),
                      HasSubstr("by head: perturbation_l1, drift_agreement")));
  }
  change(
      "UPDATE measures SET name = 'answer_worst_layer_error' WHERE measure = 0; UPDATE measures "
      "SET name = 'later_layer_error' WHERE measure = 2");
  EXPECT_THAT(head_refusal(path_, "study-heads"), HasSubstr("has no values by head"));
}

TEST_F(HeadScatterFigure, ModelsOfOtherShapesAreNotMixed) {
  change(
      "DELETE FROM head_values WHERE layer = 2 AND item IN (SELECT item FROM items JOIN traces "
      "USING (trace) WHERE name = 't5.h5')");
  for (const std::string name : {"head-scatter", "head-profile"}) {
    EXPECT_THAT(head_refusal(path_, name),
                HasSubstr("t0.h5 has 3 layers with 6 heads, t5.h5 has 2 layers with 4 heads; heads "
                          "compare within one model"));
  }
}

TEST_F(HeadScatterFigure, ModelsOfOneShapeButOtherWeightsAreNotMixed) {
  change("INSERT INTO models VALUES (0, 'aa'), (1, 'aa'), (4, 'bb')");
  EXPECT_THAT(head_refusal(path_, "head-scatter"),
              HasSubstr("t0.h5 and t4.h5 are traces of different models; heads compare"));
  change("DELETE FROM models WHERE trace = 4");
  EXPECT_EQ(head_refusal(path_, "head-scatter"), "");
}

TEST_F(HeadScatterFigure, AMeasureOfLayersHasNoPlaceAmongHeads) {
  change(
      "DELETE FROM head_values WHERE measure = 1 AND head = 1;"
      "UPDATE head_values SET head = -1 WHERE measure = 1");
  EXPECT_THAT(head_refusal(path_, "head-scatter"),
              HasSubstr("no head has values of both perturbation_l1 and retained_mass"));
  EXPECT_THAT(head_refusal(path_, "head-profile", {{"measure", "retained_mass"}}),
              HasSubstr("measure retained_mass has no values of heads with h2o at 10%"));
  EXPECT_EQ(head_refusal(path_, "head-profile"), "");
}

TEST_F(HeadScatterFigure, ProfileHasTheDecilesOfTheValues) {
  const MadeFigure made = head_figure(path_, "head-profile", {{"policy", "h2o"}}, 1, 1);
  std::vector<double> values;
  for (int prompt = 0; prompt < 8; ++prompt)
    values.push_back(test::study_value(prompt, 0, 0, 1, 1));
  std::sort(values.begin(), values.end());
  std::size_t prompts = 0, deciles = 0;
  for (const Row& row : test::csv_rows(*made.figure)) {
    if (row.at("name") != "perturbation_l1") continue;
    if (row.at("section") == "prompt") {
      EXPECT_NEAR(test::csv_number(row, "value"), values.at(prompts++), 1e-8);
    }
    if (row.at("section") != "decile") continue;
    ++deciles;
    const double at = test::csv_number(row, "percent") / 100 * 7;
    const auto below = static_cast<std::size_t>(at);
    const double between =
        values[below] + (at - std::floor(at)) * (values[below + 1] - values[below]);
    EXPECT_NEAR(test::csv_number(row, "value"), between, 1e-8);
  }
  EXPECT_EQ(prompts, 8U);
  EXPECT_EQ(deciles, 9U);
  EXPECT_THAT(made.figure->caption(), HasSubstr("measured no roles"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("No contexts of 8 traces: "));
}

/// A study of three traces with roles, computed.
struct HeadRolesOfStudy : testing::Test {
  void SetUp() override {
    for (int i = 0; i < 3; ++i) {
      options_[i].seed = static_cast<std::uint64_t>(i) + 1;
      options_[i].prompt_length = 64 + 16 * i;
      options_[i].question = 8;
      options_[i].sink_logit = i == 0 ? 6.0F : 0.0F;
      options_[i].store_f32 = true;
      test::write_synthetic_trace(folder_ / ("t" + std::to_string(i) + ".h5"), options_[i]);
    }
    std::ofstream(folder_ / "study.json")
        << R"({"traces": ["*.h5"], "policies": ["h2o", "keydiff"], "budgets": ["20%"],
               "measures": ["perturbation_l1", "role_sink", "role_recent"]})";
    run_study(folder_ / "study.json", path_, [](const std::string&) {});
  }
  /// A[q][i] of one query head with the full cache.
  std::vector<std::vector<double>> attention(int trace, int layer, int query_head) const {
    const test::SyntheticStates made = test::make_synthetic_states(options_[trace]);
    return naive::full_attention(made.query[layer][query_head], made.key[layer][query_head / 2],
                                 made.run.attention_scale, 0);
  }
  HeadRoles naive_roles(int trace, int layer, int query_head) const {
    const Trace read(folder_ / ("t" + std::to_string(trace) + ".h5"));
    return naive::roles(attention(trace, layer, query_head), 0,
                        role_tokens(read.tokens(), read.run()));
  }
  void change(const std::string& sql) const { Database(path_, Database::Access::write).run(sql); }
  static std::vector<Row> section(const MadeFigure& made, const std::string& name) {
    std::vector<Row> rows;
    for (const Row& row : test::csv_rows(*made.figure)) {
      if (row.at("section") == name) rows.push_back(row);
    }
    return rows;
  }

  test::TemporaryFolder folder_;
  test::SyntheticTraceOptions options_[3];
  fs::path path_ = folder_ / "out.sqlite";
};

TEST_F(HeadRolesOfStudy, AreThoseOfEveryQueryHeadOnEveryTrace) {
  StudyResults results(path_);
  for (const auto& [layer, head] : test::cells(2, 2)) {
    const std::vector<StudyResults::Role> roles = results.roles(layer, head);
    ASSERT_EQ(roles.size(), 3U * 2U * role_catalog().size());
    for (const StudyResults::Role& one : roles) {
      const HeadRoles expected = naive_roles(one.trace[1] - '0', layer, one.query_head);
      const double value = expected.*role_catalog()[one.role].value;
      EXPECT_THAT(one.value, testing::NanSensitiveDoubleNear(value, 1e-4));
      EXPECT_EQ(one.query_head / 2, head);
    }
  }
}

TEST_F(HeadRolesOfStudy, SharesOfPromptsHaveWilsonsIntervals) {
  const MadeFigure made = head_figure(path_, "head-profile", {}, 1, 0);
  std::size_t compared = 0;
  for (const Row& row : section(made, "role")) {
    const int query_head = std::stoi(row.at("query_head"));
    long known = 0, has = 0;
    for (int trace = 0; trace < 3; ++trace) {
      const HeadRoles roles = naive_roles(trace, 1, query_head);
      if (row.at("name") == "no name") {
        ++known;
        has += strongest_role(roles) < 0 ? 1 : 0;
        continue;
      }
      for (std::size_t r = 0; r < role_catalog().size(); ++r) {
        const RoleInfo& role = role_catalog()[r];
        if (row.at("name") != role.label || std::isnan(roles.*role.value)) continue;
        ++known;
        has += role.beside ? rests_on_sink(roles) : strongest_role(roles) == static_cast<int>(r);
      }
    }
    ASSERT_GT(known, 0) << row.at("name");
    // Wilson 1927, written out.
    const double n = static_cast<double>(known), p = static_cast<double>(has) / n, z = 1.959964;
    const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
    const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    EXPECT_NEAR(test::csv_number(row, "value"), p, 1e-8) << row.at("name");
    EXPECT_NEAR(test::csv_number(row, "low_95"), std::max(0.0, middle - half), 1e-5);
    EXPECT_NEAR(test::csv_number(row, "high_95"), std::min(1.0, middle + half), 1e-5);
    ++compared;
  }
  // Two query heads: sink, previous, recent, induction, question, no name; retrieval where known.
  EXPECT_GE(compared, 12U);
  EXPECT_THAT(made.figure->caption(), HasSubstr("query heads 0 to 1"));
}

TEST_F(HeadRolesOfStudy, ContextsAreTheLargestAttentionBesideTokenZero) {
  const MadeFigure made = head_figure(path_, "head-profile", {}, 0, 1);
  const std::vector<Row> contexts = section(made, "context");
  ASSERT_EQ(contexts.size(), 3U);
  double before = 2.0;
  for (const Row& row : contexts) {
    const int trace = row.at("prompt")[1] - '0';
    double largest = 0.0;
    for (int query_head = 2; query_head < 4; ++query_head) {
      for (const auto& of_query : attention(trace, 0, query_head)) {
        for (std::size_t i = 1; i < of_query.size(); ++i) largest = std::max(largest, of_query[i]);
      }
    }
    const double value = test::csv_number(row, "value");
    EXPECT_NEAR(value, largest, 1e-5);
    EXPECT_LE(value, before);
    before = value;
    const auto a = attention(trace, 0, std::stoi(row.at("query_head")));
    EXPECT_NEAR(a[std::stoul(row.at("query"))][std::stoul(row.at("token"))], largest, 1e-5);
    const Trace read(folder_ / row.at("prompt"));
    EXPECT_THAT(row.at("text"),
                HasSubstr("[" + read.tokens().text[std::stoul(row.at("token"))] + "]"));
  }
  // The command that opens the strongest prompt's trace.
  EXPECT_THAT(made.figure->caption(), HasSubstr("(kvloupe " + folder_.path().string()));
  EXPECT_EQ(
      section(head_figure(path_, "head-profile", {{"contexts", "hidden"}}, 0, 1), "context").size(),
      0U);
  fs::remove(folder_ / "t1.h5");
  const MadeFigure without = head_figure(path_, "head-profile", {}, 0, 1);
  EXPECT_EQ(section(without, "context").size(), 2U);
  EXPECT_THAT(without.figure->caption(), HasSubstr("No contexts of 1 trace: t1.h5 is not"));
  EXPECT_THAT(without.figure->caption(), Not(HasSubstr("changed since the study")));
  fs::copy_file(folder_ / "t0.h5", folder_ / "t1.h5");
  EXPECT_THAT(head_figure(path_, "head-profile", {}, 0, 1).figure->caption(),
              HasSubstr(" t1.h5 has changed since the study"));
  fs::remove(folder_ / "t1.h5");
  std::ofstream(folder_ / "t1.h5") << "not a trace";
  EXPECT_THAT(head_figure(path_, "head-profile", {}, 0, 1).figure->caption(),
              HasSubstr("Not read: "));
}

TEST_F(HeadRolesOfStudy, TracesAreFoundFromTheStudysFolder) {
  fs::create_directory(folder_ / "results");
  const fs::path elsewhere = folder_ / "results" / "out.sqlite";
  run_study(folder_ / "study.json", elsewhere, [](const std::string&) {});
  EXPECT_EQ(section(head_figure(elsewhere, "head-profile"), "context").size(), 3U);
}

TEST_F(HeadRolesOfStudy, APartsRolesComeAlong) {
  for (int part = 1; part <= 2; ++part) {
    run_study(
        folder_ / "study.json", folder_ / ("part" + std::to_string(part) + ".sqlite"),
        [](const std::string&) {}, StudyPart::replays, make_replay_worker, Shard{part, 2});
  }
  const fs::path merged = folder_ / "merged.sqlite";
  merge_results({folder_ / "part1.sqlite", folder_ / "part2.sqlite"}, merged);
  EXPECT_EQ(StudyResults(merged).roles(1, 1).size(), StudyResults(path_).roles(1, 1).size());
  EXPECT_EQ(section(head_figure(merged, "head-profile", {}, 1, 1), "role"),
            section(head_figure(path_, "head-profile", {}, 1, 1), "role"));
}

TEST_F(HeadRolesOfStudy, ResultsOfAnEarlierLayoutAreReadAndGoOn) {
  change("DROP TABLE roles; DROP TABLE models; DROP TABLE folders");
  EXPECT_EQ(head_refusal(path_, "head-scatter"), "");
  const MadeFigure made = head_figure(path_, "head-profile", {}, 1, 0);
  EXPECT_THAT(made.figure->caption(), HasSubstr("means over the head’s query heads"));
  std::size_t sinks = 0;
  for (const Row& row : section(made, "role")) {
    EXPECT_EQ(row.at("query_head"), "-1");
    if (row.at("name") != "sink") continue;
    ++sinks;
    double has = 0.0;
    for (int trace = 0; trace < 3; ++trace) {
      const double mean = (naive_roles(trace, 1, 0).sink + naive_roles(trace, 1, 1).sink) / 2;
      has += mean >= 0.3 ? 1.0 : 0.0;
    }
    EXPECT_NEAR(test::csv_number(row, "value"), has / 3, 1e-8);
  }
  EXPECT_EQ(sinks, 1U);
  // An item that waits again brings the roles of its trace.
  change(
      "UPDATE items SET state = 'waiting' WHERE item = 0; DELETE FROM replay_values WHERE item = 0;"
      "DELETE FROM head_values WHERE item = 0");
  run_study(folder_ / "study.json", path_, [](const std::string&) {});
  EXPECT_EQ(StudyResults(path_).roles(0, 0).size(), 2U * role_catalog().size());
}

}  // namespace
}  // namespace kvloupe::figure

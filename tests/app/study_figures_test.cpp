// The numbers of the figures of a study, and how they refuse what the file does not have.

#include "analysis/study/database.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "analysis/study/summary.h"
#include "app/document/figure_file.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/series.h"
#include "tests/app/cli_call.h"
#include "tests/figure/made_figures.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

struct StudyFigures : testing::Test, test::MadeStudy {
  MadeFigure make(const std::string& name, const Choices& choices = {}) const {
    request::FigureSettings settings{.choices = choices};
    return request::FigureMaker(test::results_of(path_))
        .make(find_figure(name), settings, test::unwatched);
  }
  std::string refusal(const std::string& name, const Choices& choices) const {
    return test::error_of<std::exception>([&] { make(name, choices); });
  }
};

/// A mean over the heads of the synthetic study.
double mean_value(int prompt, int policy, int budget) {
  double sum = 0.0;
  for (const auto& [layer, head] : test::cells(test::kStudyLayers, test::kStudyHeads))
    sum += test::study_value(prompt, policy, budget, layer, head);
  return sum / (test::kStudyLayers * test::kStudyHeads);
}

TEST_F(StudyFigures, LayersHaveALogarithmicAxisOnRequestAndWhereValuesSpanDecades) {
  const auto scale_of = [&](const Choices& choices) {
    const MadeFigure made = make("study-layers", choices);
    const Axis y = test::scene_of("study-layers", made).axes.front().y;
    EXPECT_EQ(y.scale == AxisScale::log,
              made.figure->caption().find("Logarithmic axis") != std::string::npos);
    return y.scale;
  };
  EXPECT_EQ(scale_of({{"scale", "linear"}}), AxisScale::linear);
  EXPECT_EQ(scale_of({{"scale", "log"}}), AxisScale::log);
  // From 0.9 to 1: no decade.
  EXPECT_EQ(scale_of({{"measure", "drift_agreement"}}), AxisScale::linear);
}

TEST_F(StudyFigures, MeansAndBandsAreThoseOfTheSummary) {
  StudyResults results(path_);
  std::map<std::pair<std::string, std::string>, SummaryRow> summary;
  for (const SummaryRow& row : summarise(results)) {
    if (row.measure == "perturbation_l1") summary[{row.policy, row.budget}] = row;
  }
  for (const std::string show : {"mean", "difference"}) {
    const auto rows = test::csv_rows(*make("study-budget", {{"show", show}}).figure);
    ASSERT_EQ(rows.size(), show == "mean" ? 9U : 6U);
    for (const auto& row : rows) {
      const SummaryRow& expected = summary.at({row.at("policy"), row.at("budget")});
      const MeanInterval& one = show == "mean" ? *expected.value : *expected.from_first;
      EXPECT_NEAR(std::stod(row.at("perturbation_l1_" + show)), one.mean, 1e-8);
      EXPECT_NEAR(std::stod(row.at("low_95")), one.low, 1e-8);
      EXPECT_NEAR(std::stod(row.at("high_95")), one.high, 1e-8);
      EXPECT_EQ(row.at("prompts"), "8");
      EXPECT_EQ(row.at("budget_percent") + "%", row.at("budget"));
    }
  }
  const std::string caption =
      make("study-budget", {{"measure", "perplexity_loss"}}).figure->caption();
  EXPECT_THAT(caption, HasSubstr("task perplexity"));
  EXPECT_THAT(caption, HasSubstr("Dashed: the full cache."));
  EXPECT_THAT(caption, Not(HasSubstr("not finished")));
}

TEST_F(StudyFigures, WhatIsNotKnownIsLeftOutAndSaid) {
  // An item that failed, and a value that is unknown: h2o at 10% on the first two traces.
  change(
      "UPDATE items SET state = 'failed' WHERE item = 0; DELETE FROM replay_values WHERE item = 0;"
      "DELETE FROM head_values WHERE item = 0;"
      "UPDATE replay_values SET value = NULL WHERE item = 9 AND measure = 0");
  const MadeFigure made = make("study-budget", {{"show", "difference"}});
  for (const auto& row : test::csv_rows(*made.figure))
    EXPECT_EQ(row.at("prompts"), row.at("budget") == "10%" ? "6" : "8");
  EXPECT_THAT(made.figure->caption(), HasSubstr("6 to 8 traces"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("The study is not finished"));
  for (const auto& row : test::csv_rows(*make("study-ranks").figure))
    EXPECT_EQ(row.at("prompts"), row.at("budget") == "10%" ? "6" : "8");
}

/// As a study with runs in the model that found no answer with h2o, and all with the others.
constexpr const char* kFound =
    "UPDATE measures SET name = 'answer_found' WHERE name = 'perplexity_loss'; UPDATE "
    "replay_values SET value = (SELECT policy != 'h2o' FROM items WHERE items.item = "
    "replay_values.item) WHERE measure = 3";

TEST_F(StudyFigures, AnswersOfTheModelAreTheMeasureThatNobodyChose) {
  const std::string before = make("study-budget").figure->caption();
  EXPECT_THAT(before, HasSubstr("The study does not have the model's answers"));
  change(kFound);
  for (const std::string name : {"study-budget", "study-ranks", "study-prompts", "study-layers"}) {
    EXPECT_THAT(make(name).figure->caption(),
                HasSubstr("No measure was chosen: this is answer_found. It counts the model's own"))
        << name;
    EXPECT_THAT(make(name, {{"measure", "retained_mass"}}).figure->caption(),
                Not(HasSubstr("No measure was chosen")))
        << name;
  }
}

TEST_F(StudyFigures, SharesHaveAnIntervalAndFewPromptsAreDrawnThemselves) {
  for (const int prompts : {3, 12}) {
    std::filesystem::remove(path_);
    test::write_synthetic_study(path_, prompts);
    change(kFound);
    for (const auto& row : test::csv_rows(*make("study-budget").figure)) {
      const MeanInterval wilson = wilson_share(row.at("policy") == "h2o" ? 0 : prompts, prompts);
      EXPECT_NEAR(std::stod(row.at("low_95")), wilson.low, 1e-8);
      EXPECT_NEAR(std::stod(row.at("high_95")), wilson.high, 1e-8);
    }
    EXPECT_THAT(
        make("study-prompts").figure->caption(),
        HasSubstr(prompts == 3 ? "h2o 0 of 3 (0.00 to 0.56)" : "h2o 0 of 12 (0.00 to 0.24)"));
    for (const auto& [name, dots] : {std::pair{"study-budget", 3 * 3}, {"study-layers", 3 * 3}}) {
      const MadeFigure made = make(
          name, {{"measure", std::string(name) == "study-layers" ? "retained_mass" : "first"}});
      const Scene scene = test::scene_of(name, made);
      std::size_t open = 0, bands = 0;
      for (const Item& item : scene.items) {
        const auto* path = std::get_if<Path>(&item);
        const auto* marks = std::get_if<Markers>(&item);
        if (path != nullptr && path->fill && path->fill->alpha < 100) ++bands;
        if (marks != nullptr && marks->stroke && marks->stroke->colour.alpha < 255)
          open += marks->points.size();
      }
      EXPECT_EQ(open, prompts == 3 ? static_cast<std::size_t>(3 * dots) : 0U) << name;
      EXPECT_EQ(bands, prompts == 3 ? 0U : 3U) << name;
      EXPECT_EQ(made.figure->caption().find("Bands") != std::string::npos ||
                    made.figure->caption().find("Intervals") != std::string::npos,
                prompts == 12)
          << made.figure->caption();
    }
  }
}

TEST_F(StudyFigures, PromptsAreCalledByTheirShortNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(prompt_names({"a/t0.h5", "b/t1.h5"}), (Names{"t0", "t1"}));
  EXPECT_EQ(prompt_names({"a/t.h5", "b/t.h5"}), (Names{"a/t.h5", "b/t.h5"})) << "all different";
  EXPECT_EQ(prompt_names({"answer: a/n.jsonl#3", "answer: a/n.jsonl#12"}), (Names{"#3", "#12"}));
  EXPECT_EQ(prompt_names({"answer: a.txt", "answer: n.jsonl#0"}), (Names{"a", "n.jsonl#0"}));
  const Scene prompts = test::scene_of("study-prompts", make("study-prompts"));
  EXPECT_EQ(prompts.axes.front().y.names.at(7), "t7");
  const Scene heads = test::scene_of("study-heads", make("study-heads"));
  EXPECT_EQ(heads.axes.front().x.names.at(7), "t7");
}

TEST_F(StudyFigures, NamesInPlaceOfFirst) {
  const auto study = test::results_of(path_);
  EXPECT_EQ(names_meant(find_figure("study-prompts"), {{"budget", "25%"}}, study),
            (std::map<std::string, std::string>{{"measure", first_measure(*study->study).name},
                                                {"budget", "25%"},
                                                {"block", "capture"}}));
  EXPECT_EQ(results_text(*study), "study.sqlite · 8 traces · 16 prompts");
}

TEST_F(StudyFigures, RanksNameTheirMeasureAndWhatTheFirstRankIs) {
  const auto expect_titles = [&](const std::string& measure, const std::string& axis) {
    const MadeFigure made = make("study-ranks", {{"measure", measure}});
    const Scene scene = test::scene_of("study-ranks", made);
    EXPECT_EQ(scene.axes.front().x.label, axis);
    const auto names_measure = [&](const Item& item) {
      const Text* text = std::get_if<Text>(&item);
      return text != nullptr && text->text == described(measure).title;
    };
    EXPECT_TRUE(std::any_of(scene.items.begin(), scene.items.end(), names_measure)) << measure;
  };
  expect_titles("retained_mass", "Mean rank (1 is best)");
  EXPECT_THAT(make("study-ranks").figure->caption(), HasSubstr("not worse than the best"));
  // A measure without a better side has no best policy.
  change("UPDATE measures SET name = 'key_attention_correlation' WHERE name = 'retained_mass'");
  ASSERT_EQ(described("key_attention_correlation").better, Better::neither);
  expect_titles("key_attention_correlation", "Mean rank (1 is smallest)");
  const std::string caption =
      make("study-ranks", {{"measure", "key_attention_correlation"}}).figure->caption();
  EXPECT_THAT(caption, Not(HasSubstr("best")));
  EXPECT_THAT(caption, Not(HasSubstr("worse")));
  EXPECT_THAT(caption, HasSubstr("not larger than the smallest; open: larger"));
}

TEST_F(StudyFigures, RanksBesideTheRankOfChance) {
  EXPECT_THAT(make("study-ranks").figure->caption(), Not(HasSubstr("random")));
  change("UPDATE items SET policy = 'random' WHERE policy = 'keydiff'");
  const MadeFigure made = make("study-ranks");
  EXPECT_THAT(made.figure->caption(), HasSubstr("Dashed: random with what the policies protect"));
  const Scene scene = test::scene_of("study-ranks", made);
  int dashed = 0;
  for (const Path& path : test::items_of<Path>(scene)) {
    dashed += path.stroke && !path.stroke->dash.empty();
  }
  EXPECT_EQ(dashed, 3) << "one line in the panel of each budget";
}

TEST_F(StudyFigures, RanksAreThoseOfTheValues) {
  for (const std::string measure : {"perturbation_l1", "retained_mass"}) {
    std::map<std::pair<std::string, std::string>, std::map<std::string, std::string>> rows;
    for (const auto& row : test::csv_rows(*make("study-ranks", {{"measure", measure}}).figure))
      rows[{row.at("budget"), row.at("policy")}] = row;
    ASSERT_EQ(rows.size(), 9U);
    const char* const policies[] = {"h2o", "keydiff", "snapkv+critical"};
    const char* const budgets[] = {"10%", "25%", "50%"};
    for (int b = 0; b < 3; ++b) {
      std::vector<double> values;
      for (const auto& [prompt, p] : test::cells(test::kStudyPrompts, 3))
        values.push_back(mean_value(prompt, p, b));
      const PolicyRanks expected = rank_policies(values, 3, false);
      for (int p = 0; p < 3; ++p) {
        const auto& row = rows.at({budgets[b], policies[p]});
        EXPECT_NEAR(std::stod(row.at("mean_rank")), expected.mean_ranks[p], 1e-8);
        EXPECT_NEAR(std::stod(row.at("critical_difference")), expected.critical_difference, 1e-7);
        EXPECT_NEAR(std::stod(row.at("p")), expected.p, 1e-7);
      }
      // On 6 of 8 prompts h2o is first and snapkv+critical last: 1·6/8 + 3·2/8.
      EXPECT_EQ(rows.at({budgets[b], "h2o"}).at("mean_rank"), "1.5");
      EXPECT_EQ(rows.at({budgets[b], "keydiff"}).at("mean_rank"), "2");
    }
  }
  const auto one = test::csv_rows(*make("study-ranks", {{"budget", "25%"}}).figure);
  ASSERT_EQ(one.size(), 3U);
  EXPECT_EQ(one.front().at("budget"), "25%");
}

TEST_F(StudyFigures, EveryPolicyIsNamedWhereTheHeightIsSmall) {
  const MadeFigure made = make("study-ranks");
  DrawRequest request{.style = make_style(test::fonts())};
  request.height = made.figure->natural_height(request);
  const auto names_at = [&](double height) {
    request.height = height;
    std::map<std::string, int> names;
    for (const Text& text : test::items_of<Text>(made.figure->draw(request))) ++names[text.text];
    return names;
  };
  EXPECT_EQ(names_at(request.height)["keydiff"], 3) << "three panels below each other";
  // 60 and 42 mm: fewer rows of panels, and every policy is named in each of them. Long names are
  // shortened at their end.
  for (const double height : {170.0, 120.0}) {
    std::map<std::string, int> count;
    for (const auto& [text, times] : names_at(height)) {
      for (const char* policy : {"h2o", "keydiff", "snapkv+"})
        if (text.starts_with(policy)) count[policy] += times;
    }
    EXPECT_EQ(count.size(), 3U) << height;
    for (const auto& [policy, times] : count)
      EXPECT_EQ(times, count["keydiff"]) << policy << " at " << height;
  }
}

TEST_F(StudyFigures, HeadsAreOrderedAndTheUnstableOneIsNamed) {
  const MadeFigure made = make("study-heads", {{"policy", "keydiff"}, {"budget", "50%"}});
  const auto rows = test::csv_rows(*made.figure);
  ASSERT_EQ(rows.size(), 6U * 8U);
  double before = 1e9;
  std::map<std::string, double> deviation;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int layer = std::stoi(rows[i].at("layer")), head = std::stoi(rows[i].at("head"));
    const int prompt = static_cast<int>(i % 8);
    EXPECT_EQ(rows[i].at("prompt"), "t" + std::to_string(prompt) + ".h5");
    EXPECT_NEAR(std::stod(rows[i].at("perturbation_l1")),
                test::study_value(prompt, 1, 2, layer, head), 1e-8);
    EXPECT_LE(std::stod(rows[i].at("mean")), before + 1e-9);
    before = std::stod(rows[i].at("mean"));
    deviation[rows[i].at("layer") + "." + rows[i].at("head")] =
        std::stod(rows[i].at("standard_deviation"));
  }
  for (const auto& [head, value] : deviation) {
    if (head == "1.1") continue;
    EXPECT_GT(deviation.at("1.1"), 1.5 * value) << head;
  }
  // Head 0.0 has (1 + 0.05·prompt + 0.2)/3, and prompts 3 and 6 the same, since keydiff stays
  // second.
  EXPECT_NEAR(deviation.at("0.0"), 0.05 / 3 * std::sqrt(6.0), 1e-7);
  EXPECT_THAT(made.figure->caption(), HasSubstr("Least stable: 1.1 (standard deviation "));
  Target target;
  target.layer = 1;
  target.head = 1;
  EXPECT_THAT(made.figure->value_text(target), HasSubstr("head 1.1: mean "));
  // By their means prompt 6 comes first: it is late, and h2o is last there.
  EXPECT_EQ(test::csv_rows(*make("study-heads", {{"prompts", "mean"}}).figure).front().at("prompt"),
            "t6.h5");
}

TEST_F(StudyFigures, PromptsHaveTheirItemsAndTheFullCacheFirst) {
  const MadeFigure made =
      make("study-prompts", {{"measure", "perplexity_loss"}, {"budget", "25%"}});
  const auto rows = test::csv_rows(*made.figure);
  ASSERT_EQ(rows.size(), 8U * 4U);
  EXPECT_EQ(rows.front().at("policy"), "full");
  const StudyTable table = read_study_table(path_);
  const auto measure = static_cast<std::size_t>(table.measure("perplexity_loss"));
  for (const auto& row : rows) {
    const auto number = static_cast<std::size_t>(std::stoi(row.at("item")));
    const StudyResults::Item& item = table.items.at(number);
    EXPECT_EQ(item.trace, row.at("prompt"));
    EXPECT_EQ(item.policy, row.at("policy"));
    EXPECT_EQ(item.budget, item.policy == "full" ? "full" : "25%");
    EXPECT_NEAR(test::csv_number(row, "perplexity_loss"), table.values[measure][number], 1e-5);
  }
  Target target;
  target.run = std::stoi(rows[5].at("item"));
  EXPECT_THAT(made.figure->value_text(target), HasSubstr(" (perplexity of p1)"));
  // By their means prompts 7 and 6 come before 0.
  EXPECT_EQ(
      test::csv_rows(*make("study-prompts", {{"prompts", "mean"}}).figure).back().at("prompt"),
      "t0.h5");
  // A prompt with a single known value stands where its mean does, not where its sum would.
  change(
      "DELETE FROM replay_values WHERE measure = 0 AND item IN (SELECT item FROM items JOIN traces "
      "USING (trace) WHERE name = 't7.h5' AND budget = '10%' AND policy != 'keydiff')");
  EXPECT_EQ(test::csv_rows(*make("study-prompts", {{"prompts", "mean"}, {"budget", "10%"}}).figure)
                .front()
                .at("prompt"),
            "t7.h5");
  // Each item of the study is a run that can be asked for.
  const Evaluation read = read_evaluation(path_);
  ASSERT_EQ(read.runs.size(), table.items.size());
  EXPECT_EQ(read.runs.back().policy, table.items.back().policy);
  EXPECT_FALSE(has_prompt(read.runs.back()));
}

/// The policy random among others with the same protection is drawn as the line of chance.
TEST_F(StudyFigures, ChanceIsAThinGreyDashedLine) {
  const auto drawn = [&](const std::string& name) {
    FileOptions options;
    const MadeFigure made = make(name);
    const Scene scene = test::scene_of(name, made, options);
    const SeriesLook look = chance_look(make_style(test::fonts()));
    std::pair<int, int> found;  // lines of that look, and names
    for (const Item& item : scene.items) {
      const auto* path = std::get_if<Path>(&item);
      if (path != nullptr && path->stroke && path->stroke->dash == look.dash &&
          path->stroke->colour == look.colour && path->stroke->width == look.width)
        ++found.first;
      const auto* text = std::get_if<Text>(&item);
      // At the end of a line there is room for the beginning of its name.
      if (text != nullptr && text->text.starts_with("random, same")) ++found.second;
    }
    return found;
  };
  using Found = std::pair<int, int>;
  for (const char* name : {"study-budget", "study-layers"}) {
    EXPECT_EQ(drawn(name), Found(0, 0)) << name;
  }
  const auto before = test::csv_rows(*make("study-budget").figure);
  change("UPDATE items SET policy = 'random' WHERE policy = 'snapkv+critical'");
  for (const char* name : {"study-budget", "study-layers"}) {
    EXPECT_EQ(drawn(name), Found(2, 1)) << name << ": the line, and its sample before the name";
  }
  auto after = test::csv_rows(*make("study-budget").figure);
  for (auto& row : after) {
    if (row.at("policy") == "random") row.at("policy") = "snapkv+critical";
  }
  EXPECT_EQ(after, before) << "the numbers are under the policy's own name";
}

TEST_F(StudyFigures, LoopsAreComparedByLayerAndByPrompt) {
  const auto rows = test::csv_rows(*make("study-loops", {{"budget", "25%"}}).figure);
  ASSERT_EQ(rows.size(), 3U * (3 + 8 + 1));
  for (const auto& row : rows) {
    if (row.at("policy") != "keydiff") continue;
    double sum = 0.0;
    int count = 0;
    for (int prompt = 0; prompt < 8; ++prompt) {
      if (!row.at("prompt").empty() && row.at("prompt") != "drift of p" + std::to_string(prompt))
        continue;
      for (int layer = 0; layer < 3; ++layer) {
        if (!row.at("layer").empty() && row.at("layer") != std::to_string(layer)) continue;
        for (int head = 0; head < 2; ++head) {
          sum += 1.0 - test::study_value(prompt, 1, 1, layer, head) / 8.0;
          ++count;
        }
      }
    }
    EXPECT_NEAR(std::stod(row.at("drift_agreement")), sum / count, 1e-8);
    if (row.at("prompt").empty()) {
      EXPECT_LT(std::stod(row.at("low_95")), sum / count);
      EXPECT_GT(std::stod(row.at("high_95")), sum / count);
    }
  }
}

TEST_F(StudyFigures, AnyMeasureIsShownByLayer) {
  const auto loops = test::csv_rows(*make("study-loops").figure);
  EXPECT_EQ(test::csv_rows(*make("study-layers", {{"measure", "drift_agreement"}}).figure), loops);
  // Without values of heads each prompt is all there is.
  const auto rows = test::csv_rows(*make("study-layers", {{"measure", "perplexity_loss"}}).figure);
  EXPECT_EQ(rows.size(), 3U * (8 + 1));
}

TEST_F(StudyFigures, WhatTheFileDoesNotHaveIsRefusedWithWhatItHas) {
  EXPECT_THAT(refusal("study-budget", {{"measure", "retained_mas"}}),
              HasSubstr("did you mean 'retained_mass'? It has: perturbation_l1"));
  EXPECT_THAT(refusal("study-heads", {{"policy", "tova"}}), HasSubstr("It has: h2o, keydiff"));
  EXPECT_THAT(refusal("study-heads", {{"budget", "20%"}}), HasSubstr("It has: 10%, 25%, 50%"));
  EXPECT_THAT(refusal("study-budget", {{"block", "64"}}), HasSubstr("It has: capture"));
  EXPECT_THAT(refusal("study-heads", {{"measure", "perplexity_loss"}}), HasSubstr("did you mean"));
  EXPECT_THAT(refusal("needle-grid", {}), HasSubstr("show figure study-budget"));
  change("INSERT INTO models SELECT trace, 'v1:' || trace FROM traces WHERE trace < 2");
  EXPECT_THAT(refusal("study-budget", {}), HasSubstr("has traces of 2 models"));
  change("DELETE FROM models");
  change("UPDATE items SET state = 'waiting'; DELETE FROM head_values; DELETE FROM replay_values");
  for (const std::string name : {"budget", "ranks", "heads", "prompts", "layers", "loops"})
    EXPECT_THAT(refusal("study-" + name, {}), HasSubstr("study.sqlite: has no values yet"));
}

TEST_F(StudyFigures, AStudyOfReplaysAloneSaysHowToCompareTheLoops) {
  change("UPDATE measures SET name = 'another' WHERE measure = 2");
  EXPECT_THAT(refusal("study-loops", {}), HasSubstr("has no runs of task drift"));
  EXPECT_EQ(refusal("study-ranks", {{"measure", "another"}}), "") << "an unknown measure is shown";
  change("DELETE FROM head_values");
  EXPECT_THAT(refusal("study-heads", {}), HasSubstr("has no values by head"));
  change("DELETE FROM replay_values WHERE item % 9 != 0");
  EXPECT_THAT(refusal("study-ranks", {}), HasSubstr("ranks need two of each"));
}

TEST_F(StudyFigures, AResultsFileIsKnownByItsContentAndADamagedOneRefused) {
  EXPECT_TRUE(looks_like_evaluation(path_));
  Database(folder_ / "other.sqlite", Database::Access::write).run("CREATE TABLE mine (x)");
  EXPECT_FALSE(looks_like_evaluation(folder_ / "other.sqlite"));
  EXPECT_THROW(read_evaluation(folder_ / "other.sqlite"), FileError);
  std::filesystem::resize_file(path_, 3000);
  EXPECT_THROW(read_evaluation(path_), FileError);
  EXPECT_THROW(read_evaluation(folder_ / "none.sqlite"), FileError);
}

TEST_F(StudyFigures, ExportWritesThemFromTheCommandLine) {
  const std::string in = path_.string();
  for (const std::string figure :
       {"study-budget", "study-ranks", "study-heads", "study-layers", "study-loops"}) {
    for (const std::string ending : {"svg", "pdf", "png", "csv", "html"}) {
      const std::string out = folder_ / (figure + "." + ending);
      EXPECT_EQ(test::call({"export", in, "--figure", figure, "-o", out}).code, 0);
      EXPECT_GT(std::filesystem::file_size(out), 200U);
    }
  }
}

}  // namespace
}  // namespace kvloupe::figure

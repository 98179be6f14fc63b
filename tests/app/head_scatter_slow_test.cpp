// How long a change of an axis of head-scatter takes: from a results file with a million values of
// heads to the drawn figure.

#include <ctime>

#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/study/database.h"
#include "analysis/study/study_results.h"
#include "app/document/figure_file.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

constexpr int kPrompts = 100, kLayers = 30, kHeads = 9, kMeasures = 38;

std::vector<std::string> measure_names() {
  std::vector<std::string> names;
  for (const MeasureFamily& family : measure_catalog()) {
    for (const MeasureInfo& measure : family.measures) names.push_back(measure.name);
  }
  names.resize(kMeasures);
  return names;
}

/// Any values: 100 prompts × 270 heads × 38 measures.
void write_large_study(const std::filesystem::path& path) {
  Study study;
  study.policies = {parse_policy("keydiff")};
  study.budgets = {parse_budget("20%")};
  study.measures = measure_names();
  StudyPlan plan;
  for (int prompt = 0; prompt < kPrompts; ++prompt) {
    plan.sources.push_back({"t" + std::to_string(prompt) + ".h5", "made"});
    StudyItem item{.trace = prompt,
                   .policy = "keydiff",
                   .budget = "20%",
                   .block_word = "128",
                   .entries = 200,
                   .block = 128,
                   .compression = "regular"};
    plan.items.push_back(item);
  }
  StudyResults results(path, study, plan);
  std::uint32_t state = 1;
  for (int prompt = 0; prompt < kPrompts; ++prompt) {
    StudyOutcome outcome;
    outcome.item = prompt;
    for (int measure = 0; measure < kMeasures; ++measure) {
      outcome.values.push_back({measure, -1, -1, -1, 0.5});
      for (const auto& [layer, head] : test::cells(kLayers, kHeads)) {
        state = state * 1664525U + 1013904223U;
        outcome.values.push_back({measure, layer, head, -1, (state >> 8U) / 16777216.0 + 0.1});
      }
    }
    results.record(outcome);
  }
}

TEST(HeadScatterSpeed, AChangeOfAxisIsDrawnWithinThreeTenthsOfASecond) {
  const test::TemporaryFolder folder;
  write_large_study(folder / "study.sqlite");
  ASSERT_EQ(Database(folder / "study.sqlite", Database::Access::read)
                .number("SELECT COUNT(*) FROM head_values"),
            long{kPrompts} * kLayers * kHeads * kMeasures);
  const auto seconds = [](std::clock_t from) {
    return static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
  };
  std::clock_t start = std::clock();
  const request::FigureMaker maker(test::results_of(folder / "study.sqlite"));
  const double opened = seconds(start);
  const FigureInfo& info = find_figure("head-scatter");
  double slowest = 0.0;
  for (int measure = 1; measure < 6; ++measure) {
    const auto name = [](int place) { return measure_names()[place]; };
    request::FigureSettings settings;
    settings.choices = {{"x", name(measure)}, {"y", name(0)}, {"colour", name(measure + 6)}};
    start = std::clock();
    const MadeFigure made = maker.make(info, settings, test::unwatched);
    const Scene scene = page_of(info, made, {}, test::fonts());
    slowest = std::max(slowest, seconds(start));
    std::size_t points = 0;
    for (const PickPoints& set : scene.point_sets) points += set.points.size();
    ASSERT_EQ(points, std::size_t{kLayers} * kHeads);
  }
  std::printf(
      "processor time: %.2f s to open the results, %.3f s for the slowest of five changes\n",
      opened, slowest);
  EXPECT_LT(slowest, 0.3);
}

}  // namespace
}  // namespace kvloupe::figure

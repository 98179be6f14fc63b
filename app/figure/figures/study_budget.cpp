// A measure of a study against the budget: each policy's mean over the prompts, with the band in
// which the bootstrap over prompts finds it.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "analysis/error.h"
#include "analysis/study/intervals.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/line_panels.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_budget_figure {

namespace {

// Names of lines stand at their ends; more or longer ones go above the plot, where none is cut.
constexpr std::size_t kMostNamesAtEnds = 5;
constexpr std::size_t kLongestNameAtEnd = 18;

/// One policy at one budget.
struct Place {
  std::string policy, budget;
  double x = 0.0;
  std::size_t prompts = 0;
  MeanInterval value;
};

class StudyBudget final : public Figure {
 public:
  LinePanels lines;
  std::vector<Place> places;
  std::string x_name, y_name, caption_text;

  double natural_height(const DrawRequest& request) const override {
    return lines.natural_height(request);
  }
  Scene draw(const DrawRequest& request) const override { return lines.draw(request); }
  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "budget", x_name, "prompts", y_name, "low_95", "high_95"});
    for (const Place& one : places) {
      csv.row({std::string_view(one.policy), std::string_view(one.budget), one.x,
               static_cast<long>(one.prompts), one.value.mean, one.value.low, one.value.high});
    }
  }
  std::string caption() const override { return caption_text; }
};

/// The number in "25%"; nothing for a count.
std::optional<double> percent_of(const std::string& budget) {
  double value = 0.0;
  const char* end = budget.data() + budget.size();
  const auto [rest, error] = std::from_chars(budget.data(), end, value);
  if (error != std::errc() || rest + 1 != end || *rest != '%') return std::nullopt;
  return value;
}

/// Places of the budgets: percent of the prompt if all are written so, else mean entries.
std::vector<double> places_of(const MeasureTable& table, bool percent) {
  std::vector<double> places;
  for (std::size_t b = 0; b < table.budgets.size(); ++b) {
    if (percent) {
      places.push_back(*percent_of(table.budgets[b]));
      continue;
    }
    double sum = 0.0, count = 0.0;
    for (std::size_t prompt = 0; prompt < table.prompts.size(); ++prompt) {
      const double entries = table.entries[b * table.prompts.size() + prompt];
      if (!std::isfinite(entries)) continue;
      sum += entries;
      ++count;
    }
    places.push_back(sum / count);
  }
  return places;
}

/// The known values of a policy at a budget, or their differences from the first policy's.
std::vector<double> known_values(const MeasureTable& table, std::size_t policy, std::size_t budget,
                                 bool difference) {
  std::vector<double> values;
  for (std::size_t prompt = 0; prompt < table.prompts.size(); ++prompt) {
    double value = table.value(policy, budget, prompt);
    if (difference) value -= table.value(0, budget, prompt);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

std::optional<double> mean_known(const std::vector<double>& values) {
  double sum = 0.0;
  long count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const MeasureTable table = chosen_table(input);
  require_one_model(input.evaluation->study->path);
  const StudyMeasure measure = described(table.measure);
  const bool difference = input.choice("show") == "difference";
  if (difference && table.policies.size() < 2) {
    throw WorkError("figure study-budget: show=difference needs two policies; the study has " +
                    table.policies.front() + " alone");
  }
  const bool percent = std::all_of(table.budgets.begin(), table.budgets.end(),
                                   [](const auto& budget) { return percent_of(budget); });
  const std::vector<double> at = places_of(table, percent);
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < at.size(); ++b) {
    if (at[b] > 0.0) order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return at[a] < at[b]; });
  auto figure = std::make_unique<StudyBudget>();
  LinePanels::Panel panel;
  ValueRange x, y;
  std::size_t fewest = table.prompts.size(), most = 0;
  for (std::size_t p = difference ? 1 : 0; p < table.policies.size(); ++p) {
    LinePanels::Line line{.name = table.policies[p], .look = static_cast<int>(p), .marked = true};
    LinePanels::Band band;
    band.look = line.look;
    for (const std::size_t b : order) {
      progress.check();
      const std::vector<double> values = known_values(table, p, b, difference);
      if (values.empty()) continue;
      const MeanInterval one = bootstrap_mean(values);
      figure->places.push_back({table.policies[p], table.budgets[b], at[b], values.size(), one});
      fewest = std::min(fewest, values.size());
      most = std::max(most, values.size());
      line.points.push_back({at[b], one.mean});
      band.x.push_back(at[b]);
      band.low.push_back(one.low);
      band.high.push_back(one.high);
      x.add(at[b]);
      y.add(one.low);
      y.add(one.high);
    }
    if (line.points.empty()) continue;
    panel.lines.push_back(std::move(line));
    panel.bands.push_back(std::move(band));
  }
  if (panel.lines.empty()) {
    throw WorkError(fmt::format("figure study-budget: no value of measure {} is known{}",
                                table.measure, difference ? " for two policies" : ""));
  }
  mark_chance(panel, table.policies);
  const std::optional<double> full = mean_known(table.full);
  const std::optional<double> level = difference ? 0.0 : full;
  if (level) {
    panel.levels.push_back({*level, ""});
    y.add(*level);
  }
  panel.x = x_axis(percent ? "Budget (% of the prompt)" : "Budget N (entries)", x.padded_log(),
                   AxisScale::log);
  panel.y = y_axis((difference ? "Δ " : "") + axis_text(measure),
                   difference ? y.padded() : within(y.padded(), bounds_of(measure)));
  panel.y_grid = true;
  figure->lines.legend = panel.lines.size() > kMostNamesAtEnds ||
                         std::any_of(panel.lines.begin(), panel.lines.end(), [](const auto& line) {
                           return line.name.size() > kLongestNameAtEnd;
                         });
  figure->lines.panels.push_back(std::move(panel));
  figure->x_name = percent ? "budget_percent" : "budget_entries";
  figure->y_name = table.measure + (difference ? "_difference" : "_mean");
  figure->caption_text = fmt::format(
      "{}{}{}, by budget: mean over {}{}{}. Bands: 95 % of {} bootstrap resamples of the {}, the "
      "same for all policies{}.{}{}",
      measure.title,
      difference ? " less that of " + table.policies.front() + " on the same prompt" : "",
      task_text(measure), fewest < most ? format_count(static_cast<long>(fewest)) + " to " : "",
      prompts_text(table, static_cast<long>(most)),
      table.block == "capture" ? "" : ", block " + table.block, format_count(kResamples),
      prompts_text(table, 2).substr(format_count(2).size() + 1),
      difference ? ", so that the differences are paired" : "",
      difference ? " Dashed: " + table.policies.front() + "."
      : level    ? " Dashed: the full cache."
                 : "",
      unfinished_text(*input.evaluation->study));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "study-budget", "Measure by budget, over prompts",
      "A measure of a study against the budget: for each policy the mean over the prompts with "
      "its 95 % bootstrap band (Efron 1979), or the paired difference from the first policy");
  info.aspect = 1.4;
  ChoiceInfo show{"show",
                  "Show",
                  "Each policy's mean, or its difference from the study's first policy, prompt by "
                  "prompt",
                  {"mean", "difference"}};
  info.choices = {study_measure_choice(), show, study_block_choice()};
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure::study_budget_figure

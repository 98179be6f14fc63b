// Needles found in the model with each policy in its cache: prompt length × depth.

#include "analysis/study/study_statistics.h"
#include "analysis/unknown.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::needle_grid_figure {

namespace {

/// One policy's map. NaN where nothing was run.
struct PolicyMap {
  std::string policy;
  std::vector<float> found;  // [depths,lengths] percent
  std::vector<long> runs;    // [depths,lengths]
  std::vector<int> first;    // [depths,lengths] index of the first run; −1: none

  long hits(std::size_t cell) const {
    return std::lround(found[cell] * static_cast<float>(runs[cell]) / 100.0F);
  }
  /// Wilson's 95 % interval, in percent.
  MeanInterval interval(std::size_t cell) const {
    if (runs[cell] == 0) return {kUnknown, kUnknown, kUnknown};
    const MeanInterval share = wilson_share(hits(cell), runs[cell]);
    return {100.0 * share.mean, 100.0 * share.low, 100.0 * share.high};
  }
};

class NeedleGrid final : public PanelFigure {
 public:
  std::string model;
  std::string budget;  // as written
  std::vector<double> lengths, depths;
  std::vector<PolicyMap> policies;

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const ColourScale colours = scale(request);
    Rect all = axes.front().plot;  // one bar for all panels
    for (std::size_t p = 0; p < axes.size(); ++p) {
      add_cells(scene, request.style, axes[p], policies[p].found, static_cast<int>(depths.size()),
                static_cast<int>(lengths.size()), colours,
                [](double value) { return fmt::format("{:.0f}", value); });
      all.width = std::max(all.width, axes[p].plot.right() - all.x);
      for (std::size_t cell = 0; cell < policies[p].first.size(); ++cell) {
        Target target{.run = policies[p].first[cell]};
        if (target.run < 0) continue;
        const auto row = static_cast<double>(cell / lengths.size());
        const auto column = static_cast<double>(cell % lengths.size());
        const Point low = axes[p].to_page(column, row);
        const Point high = axes[p].to_page(column + 1.0, row + 1.0);
        scene.regions.push_back({{low.x, low.y, high.x - low.x, high.y - low.y}, target});
      }
    }
    add_colour_bar(scene, request.style, all, colours);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "budget", "length_tokens", "depth_percent", "runs", "found_percent",
             "low_95", "high_95"});
    for (const PolicyMap& map : policies) {
      const std::string_view of = map.policy == "full" ? "full" : std::string_view(budget);
      for (std::size_t d = 0; d < depths.size(); ++d) {
        for (std::size_t l = 0; l < lengths.size(); ++l) {
          const std::size_t at = d * lengths.size() + l;
          const MeanInterval share = map.interval(at);
          csv.row({map.policy, of, lengths[l], depths[d], map.runs[at], map.found[at], share.low,
                   share.high});
        }
      }
    }
  }

  std::string value_text(const Target& target) const override {
    for (const PolicyMap& map : policies) {
      for (std::size_t cell = 0; cell < map.first.size(); ++cell) {
        if (target.run < 0 || map.first[cell] != target.run) continue;
        const MeanInterval share = map.interval(cell);
        return fmt::format("{} of {} found (95 %: {:.0f} to {:.0f} %)", map.hits(cell),
                           map.runs[cell], share.low, share.high);
      }
    }
    return {};
  }

  std::string caption() const override {
    long fewest = std::numeric_limits<long>::max();
    for (const PolicyMap& map : policies)
      for (const long runs : map.runs) fewest = std::min(fewest, runs);
    return fmt::format(
        "Needles found in percent, by the prompt's length and the needle's depth (percent of the "
        "text before it), {}with the policy in the model's own cache{}; at least {} prompt{} per "
        "cell.{}",
        model.empty() ? "" : model + " ", budget.empty() ? "" : ", budget " + budget, fewest,
        fewest == 1 ? "" : "s",
        fewest == 0 ? ""
                    : fmt::format(" Where none of {} is found, up to {:.0f} % may be; where all "
                                  "are, down to {:.0f} % (Wilson’s 95 % interval).",
                                  fewest, 100.0 * wilson_share(0, fewest).high,
                                  100.0 * wilson_share(fewest, fewest).low));
  }

 private:
  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts, .high = 100.0, .label = "Found (%)"};
    choose_limits(colours, request.limits, kPercent);
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    std::vector<std::string> columns, rows;
    for (const double length : lengths) columns.push_back(format_count(std::lround(length)));
    for (const double depth : depths) rows.push_back(fmt::format("{:g}", depth));
    PanelGrid grid;
    grid.aspect = std::clamp(1.4 * static_cast<double>(lengths.size()) /
                                 static_cast<double>(std::max<std::size_t>(1, depths.size())),
                             1.0, 2.5);
    grid.least_width = 60.0;
    grid.right = colour_bar_width(request.style, scale(request), 80.0);
    for (const PolicyMap& map : policies) {
      grid.panels.push_back(Panel{.title = map.policy == "full" ? "full cache" : map.policy,
                                  .x = name_axis(columns, "Length (tokens)"),
                                  .y = name_axis(rows, "Depth (%)"),
                                  .is_map = true});
    }
    return grid;
  }
};

std::vector<double> values_of(const Evaluation& evaluation, double EvaluationRun::*number) {
  std::vector<double> values;
  for (const EvaluationRun& run : evaluation.runs) values.push_back(run.*number);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const Evaluation& evaluation = *input.evaluation;
  auto figure = std::make_unique<NeedleGrid>();
  figure->model = evaluation.model;
  figure->budget = evaluated_budget(input);
  figure->lengths = values_of(evaluation, &EvaluationRun::length);
  figure->depths = values_of(evaluation, &EvaluationRun::depth);
  for (const std::string& policy : evaluation.policies()) {
    PolicyMap map{policy, {}, {}, {}};
    long all = 0;
    for (const double depth : figure->depths) {
      for (const double length : figure->lengths) {
        double found = 0.0;
        long count = 0;
        int first = -1;
        for (std::size_t i = 0; i < evaluation.runs.size(); ++i) {
          const EvaluationRun& run = evaluation.runs[i];
          if (run.policy != policy || run.depth != depth || run.length != length) continue;
          if (run.budget != "full" && run.budget != figure->budget) continue;
          if (first < 0) first = static_cast<int>(i);
          found += run.correct;
          ++count;
        }
        all += count;
        map.runs.push_back(count);
        map.first.push_back(first);
        map.found.push_back(count > 0
                                ? static_cast<float>(100.0 * found / static_cast<double>(count))
                                : std::numeric_limits<float>::quiet_NaN());
      }
    }
    if (all > 0) figure->policies.push_back(std::move(map));
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = evaluation_figure(
      "needle-grid", "Needles by length and depth",
      "Share of needles that the model finds with each policy in its cache, by the prompt's length "
      "and the needle's depth (KeyDiff figure 6; CriticalKV figures 1 and 2; CAOTE figure 2), at "
      "the evaluated budget nearest to the chosen one",
      compute, kTwoColumns);
  info.limits = true;
  info.needs.evaluated_budget = true;
  info.unfit = [](const Evaluation& evaluation) -> std::string {
    if (evaluation.task == Evaluation::Task::needle) return {};
    if (evaluation.task == Evaluation::Task::study) return why_no_evaluation(evaluation);
    return evaluation.task == Evaluation::Task::rescue
               ? "has no needle at several depths; show figure rescue"
               : "has no needles; show figure perplexity-budget, or run --task needle";
  };
  return info;
}

}  // namespace kvloupe::figure::needle_grid_figure

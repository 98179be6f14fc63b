// Every head of a study as a point: two measures, means over the prompts with their intervals, and
// a third as its colour.

#include <map>

#include "analysis/math/rank_correlation.h"
#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/head_scatter.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_head_scatter_figure {

namespace {

constexpr std::size_t kManyHeads = 150;
constexpr int kColours = 64;             // steps of the colour of points
constexpr const char* kLayer = "layer";  // the colour that is no measure

struct Point3 {
  HeadMeasureTable::Head head;
  StudentMean x, y, colour;
};

class StudyHeadScatter final : public PanelFigure {
 public:
  StudyMeasure x, y, colour;  // a colour without a name: the layer
  bool log_x = false, log_y = false;
  std::vector<Point3> heads;  // with both numbers

  double colour_of(const Point3& one) const {
    return colour.name.empty() ? one.head.layer : one.colour.mean;
  }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& all) const override {
    const Style& style = request.style;
    const Axes& axes = all.front();
    const double size = heads.size() > kManyHeads ? 2.4 : 3.4;
    std::vector<Rect> lines = draw_intervals(scene, style, axes);
    const ColourScale colours = scale(request);
    const ColourLookup lookup(colours);
    // Points of one colour are one item.
    std::map<int, std::pair<std::vector<Point>, std::vector<Target>>> of_colour;
    std::vector<std::pair<Point, std::string>> names;
    for (const Point3& head : heads) {
      const double value = colour_of(head);
      const double share = (value - colours.low) / (colours.high - colours.low);
      const int step = std::isfinite(share)
                           ? static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kColours))
                           : -1;
      auto& [points, targets] = of_colour[step];
      points.push_back({head.x.mean, head.y.mean});
      targets.push_back({.layer = head.head.layer, .head = head.head.head});
      const Point at = axes.to_page(head.x.mean, head.y.mean);
      if (axes.plot.contains(at)) names.emplace_back(at, name_of(head));
    }
    for (const auto& [step, group] : of_colour) {
      SeriesLook look;
      look.colour = step < 0 ? style.colours.faint
                             : lookup(colours.low + (colours.high - colours.low) * step / kColours);
      look.filled = step >= 0;  // of unknown colour: open
      add_dots(scene, style, axes, group.first, look, size, group.second);
    }
    add_dot_names(scene, style, axes, std::move(names), size, false, std::move(lines));
    add_colour_bar(scene, style, axes.plot, colours);
  }

 private:
  /// Whether it stands for enough prompts: of fewer, bars would hide the points.
  static bool has_interval(const StudentMean& mean) { return mean.count >= kFewestForBootstrap; }
  static std::string name_of(const Point3& one) {
    return one.head.head >= 0 ? fmt::format("{}.{}", one.head.layer, one.head.head)
                              : fmt::format("{}", one.head.layer);
  }
  /// A faint cross as long as the two intervals; returns where the lines are.
  std::vector<Rect> draw_intervals(Scene& scene, const Style& style, const Axes& axes) const {
    Path crosses;
    std::vector<Rect> lines;
    const auto line = [&](double x0, double y0, double x1, double y1) {
      // On a logarithmic axis an interval from 0 begins at the foot.
      const auto clamped = [](const Axis& axis, double value) {
        return std::clamp(value, std::min(axis.first, axis.last), std::max(axis.first, axis.last));
      };
      const Point from = axes.to_page(clamped(axes.x, x0), clamped(axes.y, y0));
      const Point to = axes.to_page(clamped(axes.x, x1), clamped(axes.y, y1));
      crosses.move(from).line(to);
      lines.push_back({from.x, to.y, to.x - from.x, from.y - to.y});
    };
    for (const Point3& one : heads) {
      if (!axes.plot.contains(axes.to_page(one.x.mean, one.y.mean))) continue;
      if (has_interval(one.x)) line(one.x.low, one.y.mean, one.x.high, one.y.mean);
      if (has_interval(one.y)) line(one.x.mean, one.y.low, one.x.mean, one.y.high);
    }
    if (crosses.verbs.empty()) return lines;
    add_stroked(scene, std::move(crosses),
                {style.colours.faint.with_alpha(heads.size() > kManyHeads ? 0.4 : 0.7), 0.4});
    return lines;
  }

  ColourScale scale(const DrawRequest& request) const {
    ValueRange shown;
    for (const Point3& one : heads) shown.add(colour_of(one));
    ColourScale colours{.map = request.style.amounts,
                        .low = shown.empty() ? 0.0 : shown.low,
                        .high = shown.empty() ? 1.0 : shown.high};
    if (!(colours.high > colours.low)) colours.high = colours.low + 1.0;
    colours.label = colour.name.empty() ? "Layer" : axis_text(colour);
    choose_limits(colours, request.limits, bounds_of(colour));
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    ValueRange along_x, along_y;
    // With the intervals; on a logarithmic axis an interval may begin near 0, and is cut.
    const auto add = [](ValueRange& values, const StudentMean& mean, bool log) {
      values.add(mean.mean);
      if (has_interval(mean)) values.add(mean.high);
      if (has_interval(mean) && !log) values.add(mean.low);
    };
    for (const Point3& one : heads) {
      add(along_x, one.x, log_x);
      add(along_y, one.y, log_y);
    }
    const auto range = [](const ValueRange& values, bool log, const StudyMeasure& measure) {
      return log ? values.padded_log() : within(values.padded(), bounds_of(measure));
    };
    PanelGrid grid{.aspect = 1.25, .right = colour_bar_width(request.style, scale(request), 80.0)};
    Panel panel;
    panel.x =
        x_axis(axis_text(x), range(along_x, log_x, x), log_x ? AxisScale::log : AxisScale::linear);
    panel.y =
        y_axis(axis_text(y), range(along_y, log_y, y), log_y ? AxisScale::log : AxisScale::linear);
    if (request.x_range) panel.x.show(*request.x_range);
    if (request.y_range) panel.y.show(*request.y_range);
    grid.panels.push_back(std::move(panel));
    return grid;
  }
};

/// The mean of each head over the prompts.
std::map<HeadMeasureTable::Head, StudentMean> means_of(const ChosenHeads& chosen) {
  std::map<HeadMeasureTable::Head, StudentMean> means;
  const std::size_t prompts = chosen.table.prompts.size();
  for (std::size_t h = 0; h < chosen.heads.heads.size(); ++h) {
    const std::span<const double> all(chosen.heads.values);
    const StudentMean mean = student_mean(all.subspan(h * prompts, prompts));
    if (mean.count > 0) means.emplace(chosen.heads.heads[h], mean);
  }
  return means;
}

/// "perturbation L1 on 30 traces", with the numbers of prompts where heads differ.
std::string measured_text(const StudyMeasure& measure, const ChosenHeads& chosen,
                          const std::map<HeadMeasureTable::Head, StudentMean>& means) {
  int fewest = 0, most = 0;
  for (const auto& [head, mean] : means) {
    fewest = fewest == 0 ? mean.count : std::min(fewest, mean.count);
    most = std::max(most, mean.count);
  }
  const std::string count = prompts_text(chosen.table, most);
  return fmt::format("{}{} on {}{}", measure.title, task_text(measure),
                     fewest == most ? "" : format_count(fewest) + " to ", count);
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const StudyTable& study = *input.evaluation->study;
  auto figure = std::make_unique<StudyHeadScatter>();
  const std::string x = chosen_head_measure(input, "x");
  const std::string y = chosen_head_measure(input, "y");
  const bool by_layer = input.choice("colour") == kLayer;
  const std::string colour = by_layer ? "" : chosen_head_measure(input, "colour");
  figure->x = described(x);
  figure->y = described(y);
  if (!by_layer) figure->colour = described(colour);

  const ChosenHeads of_x = chosen_heads(input, x);
  progress.check();
  const auto x_means = means_of(of_x);
  const ChosenHeads of_y = y == x ? of_x : chosen_heads(input, y);
  progress.check();
  const auto y_means = means_of(of_y);
  std::map<HeadMeasureTable::Head, StudentMean> colour_means;
  if (!by_layer) colour_means = means_of(chosen_heads(input, colour));

  figure->add_row({"layer", "head", "x_measure", "x", "x_low_95", "x_high_95", "x_prompts",
                   "y_measure", "y", "y_low_95", "y_high_95", "y_prompts", "colour_measure",
                   "colour"});
  const auto mean_text = [](const StudyMeasure& measure, const StudentMean& mean) {
    std::string text = measure.title + " " + format_number(mean.mean);
    if (mean.count > 1)
      text += fmt::format(" ({} to {})", format_number(mean.low), format_number(mean.high));
    return text;
  };
  std::vector<double> xs, ys;
  ValueRange x_range, y_range;
  for (const auto& [head, mean] : x_means) {
    const auto other = y_means.find(head);
    if (other == y_means.end()) continue;
    Point3 point;
    point.head = head;
    point.x = mean;
    point.y = other->second;
    const auto third = colour_means.find(head);
    point.colour = third == colour_means.end() ? student_mean({}) : third->second;
    figure->heads.push_back(point);
    figure->add_row({head.layer, head.head, x, point.x.mean, point.x.low, point.x.high,
                     point.x.count, y, point.y.mean, point.y.low, point.y.high, point.y.count,
                     by_layer ? kLayer : colour, figure->colour_of(point)});
    std::string text = mean_text(figure->x, point.x) + ", " + mean_text(figure->y, point.y);
    if (!by_layer)
      text += fmt::format(", {} {}", figure->colour.title, format_number(point.colour.mean));
    figure->say({.layer = head.layer, .head = head.head}, text);
    xs.push_back(mean.mean);
    ys.push_back(other->second.mean);
    x_range.add(xs.back());
    y_range.add(ys.back());
  }
  if (figure->heads.empty()) {
    throw WorkError(fmt::format(
        "{}: no head has values of both {} and {} with {} at {}: one may be a measure of layers; "
        "choose two measures of heads",
        study.path.string(), x, y, of_x.table.policies[of_x.policy],
        of_x.table.budgets[of_x.budget]));
  }
  // As curves over layers do: logarithmic on request, or where the values span a decade and a half.
  const std::string& scale = input.choice("scale");
  constexpr double kSpan = 30.0;
  const auto is_log = [&](const ValueRange& range) {
    return range.low > 0.0 &&
           (scale == "log" || (scale == "auto" && range.high > kSpan * range.low));
  };
  figure->log_x = is_log(x_range);
  figure->log_y = is_log(y_range);

  const double rho = spearman(xs, ys);
  figure->caption_text = fmt::format(
      "{} {} as points: {} against {}, {}, budget {}{}; means over the prompts{}. Colour: {}. "
      "Named (layer.head): the highest, where there is room. "
      "Spearman’s ρ over the {}: {}.{}",
      format_count(static_cast<long>(figure->heads.size())),
      figure->heads.front().head.head >= 0 ? "heads" : "layers",
      measured_text(figure->y, of_y, y_means), measured_text(figure->x, of_x, x_means),
      of_x.table.policies[of_x.policy], budget_text(of_x.table.budgets[of_x.budget]),
      of_x.table.block == "capture" ? "" : ", block " + of_x.table.block,
      of_x.table.prompts.size() < kFewestForBootstrap ? ", too few for intervals"
                                                      : ", lines: their 95 % intervals (Student)",
      by_layer ? "the layer" : figure->colour.title,
      figure->heads.front().head.head >= 0 ? "heads" : "layers", correlation_text(rho),
      closing_text(input));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "head-scatter", "Heads by two measures",
      "Every head as a point: two measures of a study, means over its prompts with 95 % intervals "
      "(Student, from 10 prompts on), and a third as the colour. A click selects the head",
      compute, kColumn, 1.25);
  info.unfit = why_no_heads;
  info.limits = true;
  info.zoom = Zoom::both;
  ChoiceInfo scale = curve_scale_choice();
  scale.tooltip =
      "Linear axes; logarithmic ones where all values are above 0; auto: where they span a decade "
      "and a half as well";
  info.choices = {
      head_measure_choice("x", "x", "The measure along x; first: the first in the study file"),
      head_measure_choice("y", "y", "The measure along y; second: the second in the study file",
                          "second"),
      head_measure_choice("colour", "Colour", "The measure that colours the points, or layer",
                          kLayer),
      study_policy_choice(),
      study_budget_choice(),
      study_block_choice(),
      scale};
  return info;
}

}  // namespace kvloupe::figure::study_head_scatter_figure

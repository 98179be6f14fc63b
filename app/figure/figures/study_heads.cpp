// Heads × prompts of a study: which heads have the same value on every prompt, and which do not.

#include <numeric>

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_heads_figure {

namespace {

constexpr std::size_t kMostBoxes = 64;  // rows; of more, only the range and the mean are drawn
constexpr std::size_t kNamed = 3;       // heads that the caption names

/// One head over the prompts.
struct Row {
  HeadMeasureTable::Head head;
  std::vector<double> values;  // [prompts]
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = 0.0;  // standard deviation, n − 1
  BoxNumbers box;

  std::string name() const {
    return head.head >= 0 ? fmt::format("{}.{}", head.layer, head.head)
                          : fmt::format("{}", head.layer);
  }
};

class StudyHeads final : public PanelFigure {
 public:
  StudyMeasure measure;
  std::vector<Row> rows;
  std::vector<std::string> prompts;

  double natural_height(const DrawRequest& request) const override {
    constexpr double kLongest = 60.0;  // of the prompts' names, which may read upwards
    double names = 0.0;
    for (const std::string& name : prompt_names(prompts)) {
      names = std::max(names, request.style.fonts->width(name, Font::regular, request.style.small));
    }
    return std::clamp(6.0 * static_cast<double>(rows.size()), 90.0, 380.0) + 35.0 +
           std::min(names, kLongest);
  }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    const ColourScale colours = scale(request);
    std::vector<float> cells;
    for (const Row& row : rows) {
      for (const double value : row.values) cells.push_back(static_cast<float>(value));
    }
    const int count = static_cast<int>(rows.size());
    add_cells(scene, style, axes[0], cells, count, static_cast<int>(prompts.size()), colours);
    draw_spread(scene, style, axes[1]);
    for (const Axes& at : axes) {
      add_cell_regions(scene, at.plot, rows.size(), 1, [&](std::size_t r, std::size_t) {
        return Target{.layer = rows[r].head.layer, .head = rows[r].head.head};
      });
    }
    add_colour_bar(scene, style, axes[1].plot, colours);
  }

 private:
  /// Whether the prompts are too few for quartiles.
  bool few() const { return prompts.size() < kFewestForBootstrap; }

  ValueRange range() const {
    ValueRange range;
    for (const Row& row : rows) range.add(row.values);
    return range;
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts};
    const ValueRange shown = range();
    colours.low = shown.empty() ? 0.0 : shown.low;
    colours.high = shown.empty() ? 1.0 : shown.high;
    if (!(colours.high > colours.low)) colours.high = colours.low + 1.0;
    colours.label = axis_text(measure);
    choose_limits(colours, request.limits, bounds_of(measure));
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    std::vector<std::string> names;
    for (const Row& row : rows) names.push_back(row.name());
    const bool heads = !rows.empty() && rows.front().head.head >= 0;
    PanelGrid grid{.columns = 2, .right = colour_bar_width(request.style, scale(request), 80.0)};
    Panel map{.title = "Values"};
    map.x = name_axis(prompt_names(prompts), measure.task == kReplayTask ? "Trace" : "Prompt");
    map.y = name_axis(names, heads ? "Head, by its mean" : "Layer, by its mean");
    map.is_map = true;
    Panel spread;
    spread.title = "Spread";
    spread.x = x_axis("Value", within(range().padded(), bounds_of(measure)));
    spread.x_grid = true;
    spread.y = map.y;
    grid.panels = {std::move(map), std::move(spread)};
    return grid;
  }

  void draw_spread(Scene& scene, const Style& style, const Axes& axes) const {
    SeriesLook look{.colour = style.colours.retained};
    SeriesLook dots = look;
    dots.filled = false;
    const double row_height =
        axes.plot.height / static_cast<double>(std::max<std::size_t>(1, rows.size()));
    const double mark = std::clamp(0.8 * row_height, 1.2, 3.6);
    std::vector<Point> means;
    Path ranges;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Row& row = rows[r];
      if (row.box.count == 0) continue;
      const double at = static_cast<double>(r) + 0.5;
      means.push_back({row.mean, at});
      if (few()) {
        add_strip(scene, style, axes, static_cast<double>(r), row.values, dots, false, mark);
      } else if (rows.size() <= kMostBoxes) {
        add_box(scene, style, axes, static_cast<double>(r), row.box, look, false);
      } else {
        const auto [least, greatest] = std::minmax_element(
            row.values.begin(), row.values.end(),
            [](double a, double b) { return std::isfinite(a) && (!std::isfinite(b) || a < b); });
        ranges.move(axes.to_page(*least, at)).line(axes.to_page(*greatest, at));
      }
    }
    add_stroked(scene, std::move(ranges), {look.colour.with_alpha(0.5), 0.6});
    SeriesLook mean{.colour = style.colours.ink, .shape = MarkerShape::star};
    add_dots(scene, style, axes, means, mean, few() ? 0.8 * mark : mark);
  }
};

void fill_row(Row& row) {
  double sum = 0.0, squares = 0.0;
  long count = 0;
  for (const double value : row.values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  row.box = box_numbers(row.values);
  if (count == 0) return;
  row.mean = sum / static_cast<double>(count);
  for (const double value : row.values) {
    if (std::isfinite(value)) squares += (value - row.mean) * (value - row.mean);
  }
  row.deviation = count > 1 ? std::sqrt(squares / static_cast<double>(count - 1)) : 0.0;
}

/// The heads whose values vary most over the prompts.
std::string unstable_text(const std::vector<Row>& rows) {
  std::vector<const Row*> order;
  for (const Row& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(),
                   [](const Row* a, const Row* b) { return a->deviation > b->deviation; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, order.size()); ++i) {
    if (!(order[i]->deviation > 0.0)) break;
    text += fmt::format("{}{} (standard deviation {})", text.empty() ? "" : ", ", order[i]->name(),
                        format_number(order[i]->deviation));
  }
  return text.empty() ? "" : " Least stable: " + text + ".";
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const MeasureTable table = chosen_table(input, true);
  const std::size_t policy = chosen_policy(input, table);
  const std::size_t budget = chosen_budget(input, table);
  const HeadMeasureTable heads = head_table(*input.evaluation->study, table, policy, budget);
  auto figure = std::make_unique<StudyHeads>();
  figure->measure = described(table.measure);
  const std::size_t prompts = table.prompts.size();
  for (std::size_t h = 0; h < heads.heads.size(); ++h) {
    Row row;
    row.head = heads.heads[h];
    const auto first = heads.values.begin() + static_cast<std::ptrdiff_t>(h * prompts);
    row.values.assign(first, first + static_cast<std::ptrdiff_t>(prompts));
    fill_row(row);
    if (row.box.count > 0) figure->rows.push_back(std::move(row));
  }
  if (figure->rows.empty()) {
    throw WorkError(fmt::format(
        "figure study-heads: the study has no values by head of measure {} with {} at {}; it keeps "
        "them with \"reduce\": \"steps\" or \"none\"",
        table.measure, table.policies[policy], table.budgets[budget]));
  }
  std::stable_sort(figure->rows.begin(), figure->rows.end(),
                   [](const Row& a, const Row& b) { return a.mean > b.mean; });
  // Prompts in the study's order, or by their mean over the heads.
  std::vector<std::size_t> order(prompts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool by_mean = input.choice("prompts") == "mean";
  if (by_mean) {
    const std::vector<double> means = table.row(policy, budget);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::isfinite(means[a]) && (!std::isfinite(means[b]) || means[a] > means[b]);
    });
  }
  for (const std::size_t p : order) figure->prompts.push_back(table.prompts[p]);
  figure->add_row({"layer", "head", "mean", "standard_deviation", "prompt", figure->measure.name});
  for (Row& row : figure->rows) {
    std::vector<double> sorted;
    for (const std::size_t p : order) {
      sorted.push_back(row.values[p]);
      figure->add_row({row.head.layer, row.head.head, row.mean, row.deviation, table.prompts[p],
                       row.values[p]});
    }
    row.values = std::move(sorted);
    figure->say(
        {.layer = row.head.layer, .head = row.head.head},
        fmt::format("{} {}: mean {}, standard deviation {}", row.head.head >= 0 ? "head" : "layer",
                    row.name(), format_number(row.mean), format_number(row.deviation)));
  }
  const bool of_heads = figure->rows.front().head.head >= 0;
  figure->caption_text = fmt::format(
      "{}{} of {} on {} ({}), {}, budget {}{}: {} by their mean, the largest first. a, each value; "
      "b, its spread over the {}: {}star: mean.{}{}",
      figure->measure.title, task_text(figure->measure),
      of_heads ? "the heads (layer.head)" : "the layers",
      prompts_text(table, static_cast<long>(prompts)),
      by_mean ? "the largest mean first" : "in the study's order", table.policies[policy],
      budget_text(table.budgets[budget]), table.block == "capture" ? "" : ", block " + table.block,
      of_heads ? "heads" : "layers", figure->measure.task == kReplayTask ? "traces" : "prompts",
      prompts < kFewestForBootstrap ? "dots, "
      : figure->rows.size() <= kMostBoxes
          ? "box: quartiles and median, whiskers within 1.5 interquartile ranges, "
          : "line: range, ",
      unstable_text(figure->rows), closing_text(input));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "study-heads", "Heads over prompts",
      "A measure of every head on every prompt of a study, heads ordered by their mean, and how "
      "far each head's values spread: stable and unstable heads",
      compute, kTwoColumns, 1.5);
  info.limits = true;
  info.unfit = why_no_heads;
  const ChoiceInfo prompts = word_choice(
      "prompts", "Prompts",
      "The order of the prompts: the study's, or by their mean over the heads", {"study", "mean"});
  info.choices = {study_measure_choice(), study_policy_choice(), study_budget_choice(),
                  study_block_choice(), prompts};
  return info;
}

}  // namespace kvloupe::figure::study_heads_figure

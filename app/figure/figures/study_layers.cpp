// A measure of a study layer by layer and prompt by prompt; and as a figure of its own how far the
// sets agree that a replay (open loop) and the run in the model (closed loop) retain.

#include <map>

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_layers_figure {

namespace {

struct PolicyValues {
  std::string policy;
  int look = 0;
  std::string chance = {};      // its name as a line of chance; empty: another policy
  std::vector<double> prompts;  // [prompts] mean over the heads
  MeanInterval mean;            // over the prompts
  bool few = false;             // fewer prompts than an interval takes: they are drawn themselves
  std::vector<std::optional<MeanInterval>> layers;  // [L] mean over the prompts
  std::vector<std::vector<double>> layer_prompts;   // [L] of each prompt
};

SeriesLook look_of(const Style& style, const PolicyValues& one) {
  return one.chance.empty() ? series_look(style, one.look) : chance_look(style);
}

class StudyLayers final : public PanelFigure {
 public:
  StudyMeasure measure;
  std::vector<std::string> prompts;
  std::vector<PolicyValues> policies;
  std::string scale = "linear";  // a value of curve_scale_choice()

  /// The axis of both panels.
  Axis values_axis() const {
    LinePanels::Panel all;  // for its values alone
    LinePanels::Line line;
    ValueRange range;
    const auto add = [&](double value) {
      range.add(value);
      if (std::isfinite(value)) line.points.push_back({0.0, value});
    };
    for (const PolicyValues& one : policies) {
      for (const double value : one.prompts) add(value);
      for (const auto& layer : one.layers) {
        if (!layer || one.few) continue;
        add(layer->low);
        add(layer->high);
      }
      for (const auto& layer : one.layer_prompts) {
        if (!one.few) break;
        for (const double value : layer) add(value);
      }
    }
    all.lines.push_back(std::move(line));
    const Axis curve = curve_axis(axis_text(measure), all, scale);
    if (curve.scale == AxisScale::log) return curve;
    return y_axis(axis_text(measure), within(range.padded(), bounds_of(measure)));
  }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    if (with_layers()) draw_layers(scene, style, axes.front());
    draw_prompts(scene, style, axes.back());
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "layer", "prompt", measure.name, "low_95", "high_95"});
    const double none = std::numeric_limits<double>::quiet_NaN();
    for (const PolicyValues& one : policies) {
      for (std::size_t l = 0; l < one.layers.size(); ++l) {
        if (!one.layers[l]) continue;
        csv.row({one.policy, l, "", one.layers[l]->mean, one.layers[l]->low, one.layers[l]->high});
      }
      for (std::size_t p = 0; p < prompts.size(); ++p) {
        if (!std::isfinite(one.prompts[p])) continue;
        csv.row({one.policy, "", prompts[p], one.prompts[p], none, none});
      }
      csv.row({one.policy, "", "", one.mean.mean, one.mean.low, one.mean.high});
    }
  }

 private:
  bool with_layers() const {
    return std::any_of(policies.begin(), policies.end(),
                       [](const PolicyValues& one) { return !one.layers.empty(); });
  }

  Legend legend(const Style& style) const override {
    std::vector<SeriesLabel> labels;
    for (const PolicyValues& one : policies)
      labels.push_back({one.chance.empty() ? one.policy : one.chance, 0.0, look_of(style, one)});
    return labels;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    PanelGrid grid{.least_width = 84.0, .aspect = 1.15, .beside = 6.0};
    std::size_t layers = 0;
    for (const PolicyValues& one : policies) layers = std::max(layers, one.layers.size());
    const Axis y = values_axis();
    if (with_layers()) {
      grid.panels.push_back(Panel{
          .title = "By layer", .x = layer_axis(static_cast<int>(layers)), .y = y, .y_grid = true});
    }
    Panel by_prompt{.title = measure.task == kReplayTask ? "Each trace" : "Each prompt"};
    // Their colours and marks say which is which where the names have no room.
    std::vector<std::string> names;
    for (const PolicyValues& one : policies)
      names.push_back(request.legend ? std::string(" ") : one.policy);
    by_prompt.x = name_axis(std::move(names), "Policy");
    by_prompt.y = y;
    by_prompt.y_grid = true;
    grid.panels.push_back(std::move(by_prompt));
    return grid;
  }

  void draw_layers(Scene& scene, const Style& style, const Axes& axes) const {
    for (const bool band : {true, false}) {  // bands hide no line
      for (const PolicyValues& one : policies) {
        const SeriesLook look = look_of(style, one);
        std::vector<double> x, low, high;
        std::vector<Point> line;
        for (std::size_t l = 0; l < one.layers.size(); ++l) {
          if (!one.layers[l]) continue;
          x.push_back(static_cast<double>(l) + 0.5);
          low.push_back(one.layers[l]->low);
          high.push_back(one.layers[l]->high);
          line.push_back({x.back(), one.layers[l]->mean});
        }
        if (x.empty()) continue;
        if (band && one.few) {
          SeriesLook faint = look;
          faint.colour = look.colour.with_alpha(0.55);
          faint.filled = false;
          for (std::size_t l = 0; l < one.layer_prompts.size(); ++l) {
            add_strip(scene, style, axes, static_cast<double>(l), one.layer_prompts[l], faint, true,
                      2.0);
          }
        } else if (band) {
          add_band(scene, axes, x, low, high, look.colour.with_alpha(0.18));
        } else if (!look.marked) {
          add_line(scene, axes, line, look);
        } else {
          add_marked_line(scene, style, axes, line, look);
        }
      }
    }
  }

  void draw_prompts(Scene& scene, const Style& style, const Axes& axes) const {
    for (std::size_t p = 0; p < policies.size(); ++p) {
      const PolicyValues& one = policies[p];
      const SeriesLook look = look_of(style, one);
      add_strip(scene, style, axes, static_cast<double>(p), one.prompts, look);
      const double middle = static_cast<double>(p) + 0.5;
      // On a logarithmic axis an interval from 0 begins at the foot.
      const double foot = std::min(axes.y.first, axes.y.last);
      if (one.mean.mean < foot) continue;
      if (!one.few) {
        scene.add(make_line(axes.to_page(middle, std::max(one.mean.low, foot)),
                            axes.to_page(middle, one.mean.high), style.colours.ink, 1.4));
      }
      scene.add(make_line(axes.to_page(middle - 0.3, one.mean.mean),
                          axes.to_page(middle + 0.3, one.mean.mean), style.colours.ink, 1.0));
    }
  }
};

void keep_known(std::vector<double>& values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
}

/// For each layer the known means over its heads, one of each prompt.
std::vector<std::vector<double>> by_layer(const HeadMeasureTable& heads, std::size_t prompts) {
  std::map<int, std::vector<double>> sums, counts;
  for (std::size_t h = 0; h < heads.heads.size(); ++h) {
    std::vector<double>& sum = sums[heads.heads[h].layer];
    std::vector<double>& count = counts[heads.heads[h].layer];
    sum.resize(prompts, 0.0);
    count.resize(prompts, 0.0);
    for (std::size_t p = 0; p < prompts; ++p) {
      const double value = heads.values[h * prompts + p];
      if (!std::isfinite(value)) continue;
      sum[p] += value;
      ++count[p];
    }
  }
  std::vector<std::vector<double>> layers;
  constexpr int kMostLayers = 10'000;  // more than any model has
  for (auto& [layer, sum] : sums) {
    if (layer < 0 || layer >= kMostLayers) continue;
    for (std::size_t p = 0; p < prompts; ++p) sum[p] /= counts[layer][p];  // NaN where none
    keep_known(sum);
    layers.resize(static_cast<std::size_t>(layer) + 1);
    layers.back() = std::move(sum);
  }
  return layers;
}

std::unique_ptr<const Figure> make_figure(const FigureInput& input, Progress& progress,
                                          bool drift) {
  progress.check();
  const StudyTable& study = *input.evaluation->study;
  const MeasureTable table = chosen_table(input, false, drift ? kAgreement : "");
  const std::size_t budget = chosen_budget(input, table);
  auto figure = std::make_unique<StudyLayers>();
  figure->measure = described(table.measure);
  figure->prompts = table.prompts;
  const std::vector<std::string> chance = chance_names(table.policies);
  for (std::size_t p = 0; p < table.policies.size(); ++p) {
    progress.check();
    PolicyValues one;
    one.chance = chance[p];
    one.policy = table.policies[p];
    one.look = static_cast<int>(p);
    one.prompts = table.row(p, budget);
    std::vector<double> known = one.prompts;
    keep_known(known);
    if (known.empty()) continue;
    one.mean = mean_interval(known, figure->measure.share);
    one.few = known.size() < kFewestForBootstrap;
    one.layer_prompts = by_layer(head_table(study, table, p, budget), table.prompts.size());
    for (const std::vector<double>& layer : one.layer_prompts) {
      one.layers.emplace_back();
      if (!layer.empty()) one.layers.back() = mean_interval(layer, figure->measure.share);
    }
    figure->policies.push_back(std::move(one));
  }
  if (!drift) figure->scale = input.choice("scale");
  if (figure->policies.empty()) {
    throw WorkError(fmt::format("{}: no value of measure {} at budget {} is known",
                                study.path.string(), table.measure, table.budgets[budget]));
  }
  const std::string things = figure->measure.task == kReplayTask ? "traces" : "prompts";
  const bool layers = std::any_of(figure->policies.begin(), figure->policies.end(),
                                  [](const PolicyValues& one) { return !one.layers.empty(); });
  const bool few = std::any_of(figure->policies.begin(), figure->policies.end(),
                               [](const PolicyValues& one) { return one.few; });
  figure->caption_text = fmt::format(
      "{}{}, budget {}{}, over {}. {}{}.{}{}{}", figure->measure.title,
      drift
          ? ": overlap |A ∩ B| / |A ∪ B| of the sets that a replay on the full run and the run in "
            "the model retain, mean over the steps from the first eviction on"
          : task_text(figure->measure),
      budget_text(table.budgets[budget]), table.block == "capture" ? "" : ", block " + table.block,
      prompts_text(table, static_cast<long>(table.prompts.size())),
      layers ? "a, by layer, mean over its heads; b, each of the " + things
             : "Each of the " + things,
      ", and the mean",
      few ? " With fewer than 10 " + things + " an interval would be too narrow: dots are the " +
                things + " themselves."
          : fmt::format(" Intervals: 95 %, {}of {} bootstrap resamples of the {}.",
                        figure->measure.share ? "of shares of 0 and 1 Wilson’s, else " : "",
                        format_count(kResamples), things),
      figure->values_axis().scale == AxisScale::log
          ? " Logarithmic axis; what is not above 0 is left out."
          : "",
      closing_text(input, drift ? "" : table.measure));
  return figure;
}

}  // namespace

FigureInfo loops_entry() {
  FigureInfo info = study_figure(
      "study-loops", "Open against closed loop, over prompts",
      "Agreement of the sets that a replay (open loop) and the run in the model (closed loop) "
      "retain, by layer and by prompt: of the task drift of a study",
      [](const FigureInput& input, Progress& progress) {
        return make_figure(input, progress, true);
      },
      kTwoColumns, 2.4);
  info.choices = {study_budget_choice(), study_block_choice()};
  info.unfit = [](const Evaluation& evaluation) -> std::string {
    if (std::string why = why_no_study(evaluation); !why.empty()) return why;
    const StudyTable& study = *evaluation.study;
    const int measure = study.measure(kAgreement);
    if (measure >= 0 && !blocks_of(study, measure).empty()) return {};
    return "has no runs of task drift, which compare the open with the closed loop; add \"drift\" "
           "to the study's tasks and run kvloupe-capture study";
  };
  return info;
}

FigureInfo entry() {
  FigureInfo info = study_figure(
      "study-layers", "Measure by layer, over prompts",
      "A measure of a study by layer, mean over its heads, and on each prompt: for each "
      "policy the mean over the prompts with its 95 % interval, or the prompts where they are "
      "fewer than 10",
      [](const FigureInput& input, Progress& progress) {
        return make_figure(input, progress, false);
      },
      kTwoColumns, 2.4);
  info.choices = {study_measure_choice(), study_budget_choice(), study_block_choice(),
                  curve_scale_choice()};
  return info;
}

}  // namespace kvloupe::figure::study_layers_figure

/// The same panels of two other measures.
namespace kvloupe::figure::study_loops_figure {
FigureInfo entry() { return study_layers_figure::loops_entry(); }
}  // namespace kvloupe::figure::study_loops_figure

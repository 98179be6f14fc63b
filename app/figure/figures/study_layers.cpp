// A measure of a study layer by layer and prompt by prompt; and as a figure of its own how far the
// sets agree that a replay (open loop) and the run in the model (closed loop) retain.

#include <map>

#include "analysis/base/text/unknown.h"
#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_layers_figure {

namespace {

/// A policy's place: its look, and its name as a line of chance, if it is one.
struct Named {
  std::string name;
  int look = 0;
  bool chance = false;
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

/// The curve of a policy over the layers with its band; of few prompts, each of them.
void add_layers(LinePanels::Panel& panel, const Named& policy,
                const std::vector<std::vector<double>>& layers, bool few, bool share,
                const std::function<void(std::size_t, const MeanInterval&)>& write) {
  LinePanels::Line line{.name = policy.name, .look = policy.look, .marked = !policy.chance};
  line.chance = policy.chance;
  LinePanels::Band band{.look = policy.chance ? -1 : policy.look};
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (few) {
      panel.strips.push_back({static_cast<double>(l), layers[l], policy.look, policy.chance, true});
    }
    if (layers[l].empty()) continue;
    const MeanInterval mean = mean_interval(layers[l], share);
    write(l, mean);
    line.points.push_back({static_cast<double>(l) + 0.5, mean.mean});
    band.x.push_back(line.points.back().x);
    band.low.push_back(mean.low);
    band.high.push_back(mean.high);
  }
  panel.lines.push_back(std::move(line));
  if (!few) panel.bands.push_back(std::move(band));
}

/// The axis of both panels.
Axis values_axis(const StudyMeasure& measure, const std::vector<double>& values,
                 const std::string& scale) {
  LinePanels::Panel all;  // for its values alone
  ValueRange range;
  range.add(values);
  all.lines.emplace_back();
  for (const double value : values) {
    if (std::isfinite(value)) all.lines.back().points.push_back({0.0, value});
  }
  const Axis curve = curve_axis(axis_text(measure), all, scale);
  if (curve.scale == AxisScale::log) return curve;
  return y_axis(axis_text(measure), within(range.padded(), bounds_of(measure)));
}

std::unique_ptr<const Figure> make_figure(const FigureInput& input, Progress& progress,
                                          bool drift) {
  progress.check();
  const StudyTable& study = *input.evaluation->study;
  const MeasureTable table = chosen_table(input, false, drift ? kAgreement : "");
  const std::size_t budget = chosen_budget(input, table);
  const StudyMeasure measure = described(table.measure);
  const bool shared =
      context_means(table.full, contexts_of(table.prompts)).size() < table.prompts.size();
  auto figure = std::make_unique<LinePanels>();
  const std::vector<std::string> chance = chance_names(table.policies);
  const std::string things = measure.task == kReplayTask ? "traces" : "prompts";
  LinePanels::Panel by_layer_panel{.title = "By layer"};
  LinePanels::Panel by_prompt{.title = "Each " + things.substr(0, things.size() - 1)};
  std::vector<std::string> names;
  std::vector<double> shown;  // all values of the axis
  std::size_t most_layers = 0;
  bool few = false;
  figure->add_row({"policy", "layer", "prompt", measure.name, "low_95", "high_95"});
  for (std::size_t p = 0; p < table.policies.size(); ++p) {
    progress.check();
    const std::string& policy = table.policies[p];
    const std::vector<double> values = table.row(p, budget);
    std::vector<double> known = values;
    keep_known(known);
    if (known.empty()) continue;
    // Questions about one context have no interval here: each is a dot.
    const bool own_few = known.size() < kFewestForBootstrap || shared;
    few |= own_few;
    const MeanInterval mean = mean_interval(known, measure.share);
    const auto layers = by_layer(head_table(study, table, p, budget), table.prompts.size());
    most_layers = std::max(most_layers, layers.size());
    const Named named{chance[p].empty() ? policy : chance[p], static_cast<int>(p),
                      !chance[p].empty()};
    add_layers(by_layer_panel, named, layers, own_few, measure.share,
               [&](std::size_t layer, const MeanInterval& one) {
                 figure->add_row({policy, layer, "", one.mean, one.low, one.high});
                 if (own_few) return;
                 shown.push_back(one.low);
                 shown.push_back(one.high);
               });
    for (const auto& layer : layers) {
      if (own_few) shown.insert(shown.end(), layer.begin(), layer.end());
    }
    shown.insert(shown.end(), known.begin(), known.end());
    const auto cell = static_cast<double>(names.size());
    names.push_back(policy);
    by_prompt.strips.push_back({cell, values, named.look, named.chance, false, true, mean.mean,
                                own_few ? 0.0 : mean.low, own_few ? 0.0 : mean.high});
    for (std::size_t i = 0; i < table.prompts.size(); ++i) {
      if (std::isfinite(values[i]))
        figure->add_row({policy, "", table.prompts[i], values[i], kUnknown, kUnknown});
    }
    figure->add_row({policy, "", "", mean.mean, mean.low, mean.high});
  }
  if (names.empty()) {
    throw WorkError(fmt::format("{}: no value of measure {} at budget {} is known",
                                study.path.string(), table.measure, table.budgets[budget]));
  }
  by_layer_panel.x = layer_axis(static_cast<int>(most_layers));
  by_layer_panel.y = by_prompt.y =
      values_axis(measure, shown, drift ? "linear" : input.choice("scale"));
  by_layer_panel.y_grid = by_prompt.y_grid = true;
  figure->caption_text = fmt::format(
      "{}{}, budget {}{}, over {}. {}, and the mean.{}{}{}", measure.title,
      drift
          ? ": overlap |A ∩ B| / |A ∪ B| of the sets that a replay on the full run and the run in "
            "the model retain, mean over the steps from the first eviction on"
          : task_text(measure),
      budget_text(table.budgets[budget]), table.block == "capture" ? "" : ", block " + table.block,
      prompts_text(table, static_cast<long>(table.prompts.size())),
      most_layers > 0 ? "a, by layer, mean over its heads; b, each of the " + things
                      : "Each of the " + things,
      few ? " With fewer than 10 " + things + " an interval would be too narrow: dots are the " +
                things + " themselves."
          : fmt::format(" Intervals: 95 %, {}of {} bootstrap resamples of the {}.",
                        measure.share ? "of shares of 0 and 1 Wilson’s, else " : "",
                        format_count(kResamples), things),
      by_prompt.y.scale == AxisScale::log ? " Logarithmic axis; what is not above 0 is left out."
                                          : "",
      closing_text(input, drift ? "" : table.measure));
  // Their colours and marks say which is which where the names have no room.
  by_prompt.x = name_axis(std::vector<std::string>(names.size(), " "), "Policy");
  by_prompt.names_without_legend = std::move(names);
  if (most_layers == 0) by_prompt.lines = std::exchange(by_layer_panel.lines, {});
  if (most_layers > 0) figure->panels.push_back(std::move(by_layer_panel));
  figure->panels.push_back(std::move(by_prompt));
  figure->legend = true;
  figure->least_width = 84.0;
  figure->aspect = 1.15;
  figure->beside = 6.0;
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

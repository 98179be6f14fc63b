// How far hidden states are from the full cache's, layer after layer, with each policy in the
// cache.

#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::layer_drift_figure {

namespace {

constexpr int kFew = 16;  // layers; marks and names of more would touch

/// The number that is drawn over the layers.
struct Shown {
  HiddenDistances EvaluationRun::*distances;
  std::string label;     // of the y axis
  std::string measure;   // its column
  std::string in_words;  // for the caption
};

Shown shown(const std::string& measure) {
  if (measure == "cosine") {
    return {&EvaluationRun::hidden_cosine, "Mean 1 − cos(h′, h)", "mean_cosine_distance",
            "1 − cos(h′, h)"};
  }
  return {&EvaluationRun::hidden, "Mean ‖h′ − h‖ / ‖h‖", "mean_relative_distance",
          "‖h′ − h‖₂ / ‖h‖₂"};
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const Evaluation& evaluation = *input.evaluation;
  const Shown what = shown(input.choice("measure"));
  const int layers = evaluation.layers();
  const bool many = layers > kFew;
  const std::string budget = evaluated_budget(input);
  LinePanels::Panel panel{.id = budget};
  int look = 0;
  bool with_norm = false;
  long prompts = 0;
  for (const std::string& policy : evaluation.policies()) {
    const HiddenDistances mean = mean_of(evaluation, policy, budget, what.distances);
    if (mean.layers.empty()) continue;
    LinePanels::Line line, after_norm;
    line.name = after_norm.id = policy;
    line.look = after_norm.look = look++;
    line.marked = !many;
    after_norm.marked = true;
    for (int layer = 0; layer < layers; ++layer) {
      line.points.push_back({layer + 0.5, mean.layers[static_cast<std::size_t>(layer)]});
    }
    panel.lines.push_back(std::move(line));
    if (std::isfinite(mean.normed)) {  // another space: no line leads there
      with_norm = true;
      after_norm.points.push_back({layers + (many ? 1.5 : 0.5), mean.normed});
      panel.lines.push_back(std::move(after_norm));
    }
    prompts = std::max<long>(prompts, std::count_if(evaluation.runs.begin(), evaluation.runs.end(),
                                                    [&](const EvaluationRun& run) {
                                                      return run.policy == policy &&
                                                             run.budget == budget &&
                                                             !(run.*what.distances).layers.empty();
                                                    }));
  }
  std::vector<std::string> more;
  if (with_norm && many) more.emplace_back();  // a gap keeps the next name
  if (with_norm) more.emplace_back("norm");
  mark_chance(panel, evaluation.policies());
  panel.x = layer_names_axis(layers, "After layer", std::move(more));
  panel.y = curve_axis(what.label, panel, input.choice("scale"));
  panel.y_grid = true;
  auto figure = line_panels("after_layer", what.measure, {std::move(panel)});
  figure->legend = look > 3 || layers > kManyLayers;
  figure->aspect = 1.6;
  figure->caption_text = fmt::format(
      "{} between the hidden states h′ after each layer{} with each policy in the model's own "
      "cache{}, budget {}, and h of the full cache: mean {}.",
      what.in_words, with_norm ? ", and after the last norm (the input of the output head)," : "",
      evaluation.model.empty() ? "" : " (" + evaluation.model + ")", budget,
      evaluation.task == Evaluation::Task::needle
          ? fmt::format("over the last tokens of {} prompt{}", prompts, prompts == 1 ? "" : "s")
          : fmt::format("over all tokens of {} text{}", prompts, prompts == 1 ? "" : "s"));
  figure->caption_text += curve_scale_words(figure->panels.front());
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info =
      evaluation_figure("layer-drift", "Hidden states through the layers",
                        "How far hidden states drift from those of the full cache, layer after "
                        "layer, with each policy in the model's own cache (after CriticalKV figure "
                        "6), at the evaluated budget nearest to the chosen one: over all tokens of "
                        "a text, or at the last token of prompts with needles",
                        compute, kColumn, 1.4);
  info.choices = {
      word_choice("measure", "Measure",
                  "Relative distance ‖h′ − h‖₂ / ‖h‖₂, or 1 − cos(h′, h), which ignores lengths",
                  {"distance", "cosine"}),
      curve_scale_choice()};
  info.needs.evaluated_budget = true;
  info.unfit = [](const Evaluation& evaluation) -> std::string {
    if (evaluation.layers() > 0) return {};
    const std::string why = why_no_evaluation(evaluation);
    if (!why.empty()) return why;
    return "has no hidden states: an earlier version wrote the file, or the states needed too much "
           "memory. Run the evaluation again into another file";
  };
  return info;
}

}  // namespace kvloupe::figure::layer_drift_figure

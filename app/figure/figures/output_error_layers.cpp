// Relative output error of each layer under several policies.

#include "analysis/policy/published.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/measure/output_error.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::output_error_layers_figure {

namespace {

/// By layer, of the steps' own last queries: Σ‖o − o′‖² / Σ‖o‖² before W_O.
std::vector<double> errors_of_steps(const Replay& replay, int layers) {
  std::vector<SquaredError> sums(static_cast<std::size_t>(layers));
  for (const HeadReplay& head : replay.heads) {
    SquaredError& sum = sums[static_cast<std::size_t>(head.layer)];
    const SquaredError own = squared_error(head);
    sum.error += own.error;
    sum.output += own.output;
  }
  std::vector<double> errors;
  for (const SquaredError& sum : sums) errors.push_back(sum.share());
  return errors;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const std::vector<PolicySpec> policies = chosen_policies(input);
  // Without output weights the heads of a layer cannot be added up.
  const bool steps = input.choice("queries") == "steps" || !trace.has_output_weight();
  WantedReplay like;
  if (steps) like = {.measures = {"output_norm_l2", "head_error_l2"}, .summary = true};
  const auto replays =
      replays_of(input, for_each_policy(policies, like), progress, steps ? 0 : kReplaySteps);
  const int layers = trace.model().num_layers;
  LinePanels::Panel panel;
  std::vector<std::vector<double>> all;  // [policies] of [L]
  if (steps) {
    for (const auto& replay : replays) all.push_back(errors_of_steps(*replay, layers));
  } else {
    for (AskedReplay& answer : asked_of(input, replays, progress))
      all.push_back(std::move(answer.layer_errors));
  }
  for (std::size_t p = 0; p < policies.size(); ++p) {
    LinePanels::Line line{.name = policies[p].text(), .look = static_cast<int>(p), .marked = true};
    const std::vector<double>& errors = all[p];
    for (std::size_t layer = 0; layer < errors.size(); ++layer) {
      if (!trace.attends(static_cast<int>(layer))) continue;
      line.points.push_back({static_cast<double>(layer) + 0.5, errors[layer]});
    }
    panel.lines.push_back(std::move(line));
  }
  std::vector<std::string> texts;
  for (const PolicySpec& policy : policies) texts.push_back(policy.text());
  mark_chance(panel, texts);
  panel.x = layer_names_axis(layers);
  panel.y = curve_axis(steps ? "Output error Σ‖o − o′‖² / Σ‖o‖²" : "Change of the layer's output",
                       panel, input.choice("scale"));
  panel.y_grid = true;
  auto figure = line_panels("layer", "output_error", {std::move(panel)});
  figure->legend = policies.size() > 3 || layers > kManyLayers;
  figure->caption_text =
      steps ? fmt::format(
                  "Output error per layer, Σ‖o − o′‖² / Σ‖o‖² before W_O over the last queries of "
                  "the steps from the first eviction on and all query heads (this normalisation is "
                  "ours), N = {}.",
                  format_count(replays.front()->budget))
            : fmt::format(
                  "Change of each layer's attention output, √(Σ‖Σ(o′ − o)W_O‖² / Σ‖ΣoW_O‖²), {}: "
                  "the heads are added with their signs, as the model adds them, N = {}.",
                  asked_text(trace), format_count(replays.front()->budget));
  figure->caption_text += curve_scale_words(figure->panels.front());
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "output-error-layers", "Output error per layer",
      "How far the evictions move each layer's attention output for the queries that write the "
      "answer, or those of the question, or later ones; queries=steps: Σ‖o − o′‖² / Σ‖o‖² of each "
      "step's own last query (after CAOTE, figure 3, "
      "which does not define its normalisation: both are ours)",
      Topic::values, compute, kColumn, 1.5);
  info.needs.comparison = true;
  info.choices = {
      policies_choice(published_list({"h2o", "h2o+caote", "snapkv", "snapkv+caote", "keydiff"})),
      word_choice(
          "queries", "Queries",
          "The queries whose output is compared: those of the answer, else of the question, else "
          "later ones; or each step's own last query, by which many policies choose",
          {"later", "steps"}),
      curve_scale_choice()};
  return info;
}

}  // namespace kvloupe::figure::output_error_layers_figure

// A predictor of each head's loss against the measured loss: a dot for each head.

#include "analysis/policy/published.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/head_scatter.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::predicted_loss_figure {

namespace {

/// Mean over the head's query heads of 1 − S, each by itself: 1 less a mean near 1 loses digits.
double lost_attention(const StepRecord& record) {
  const Measure& kept = require_measure("retained_mass");
  double sum = 0.0;
  const int count = static_cast<int>(record.query_heads.size());
  for (int i = 0; i < count; ++i) sum += std::max(0.0, 1.0 - measure_at(kept, record, i));
  return count > 0 ? sum / count : kUnknown;
}

/// The median of ℒ / θ over the heads that lose anything, and the largest.
std::string tightness_text(const HeadScatter& figure) {
  std::string text;
  const HeadScatter::Dot least = figure.least();
  for (std::size_t p = 0; p < figure.panels.size(); ++p) {
    std::vector<double> ratios;
    for (const HeadScatter::Dot& dot : figure.panels[p].dots) {
      if (figure.has_place(dot, least)) ratios.push_back(dot.y / dot.x);
    }
    if (ratios.empty()) continue;
    text +=
        fmt::format("{}{}median {}, largest {}", text.empty() ? " ℒ/θ: " : "; ",
                    figure.panels.size() > 1 ? fmt::format("{}, ", static_cast<char>('a' + p)) : "",
                    format_number(quantile(ratios, 0.5)),
                    format_number(*std::max_element(ratios.begin(), ratios.end())));
  }
  return text.empty() ? text : text + ".";
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const bool by_bound = input.choice("predicted") == "bound";
  const bool later = input.choice("queries") == "later";
  const int step = input.selection.step;
  WantedReplay like{.measures = {by_bound ? "bound_l1" : "retained_mass"}, .steps = {step}};
  if (!later) like.measures.emplace_back("perturbation_l1");
  const auto replays = replays_of(input, for_each_policy(chosen_policies(input), like), progress,
                                  later ? kReplaySteps : 0);
  std::vector<AskedReplay> answers;
  if (later) answers = asked_of(input, replays, progress);
  auto figure = std::make_unique<HeadScatter>();
  const Measure& bound = require_measure("bound_l1");
  const Measure& loss = require_measure("perturbation_l1");
  for (std::size_t r = 0; r < replays.size(); ++r) {
    HeadScatter::Panel panel;
    panel.policy = replays[r]->policy;
    for (std::size_t h = 0; h < replays[r]->heads.size(); ++h) {
      const HeadReplay& head = replays[r]->heads[h];
      const StepRecord& record = head.steps.at(static_cast<std::size_t>(step));
      panel.dots.push_back(
          {head.layer, head.head, by_bound ? measure_at(bound, record) : lost_attention(record),
           later ? answers[r].heads[h].perturbation_l1 : measure_at(loss, record)});
    }
    figure->panels.push_back(std::move(panel));
  }
  figure->diagonal = by_bound;
  figure->x_name = by_bound ? "θ" : "1 − S";
  figure->y_name = "ℒ";
  figure->x_label = by_bound ? "Predicted: bound θ (L1)" : "Predicted: attention lost, 1 − S";
  figure->y_label = "Measured: loss ℒ (L1)";
  figure->x_measure = by_bound ? "bound_l1" : "lost_attention";
  figure->y_measure = later ? asked_measure(*input.trace, "perturbation_l1") : "perturbation_l1";
  const std::string predicted =
      by_bound ? "the bound θ that CriticalKV’s theorem 3.3 gives" : "the attention lost, 1 − S,";
  const std::string budget = format_count(replays.front()->budget);
  figure->caption_text =
      later
          ? fmt::format(
                "Loss ℒ = ‖(A − A′)VW_O‖₁ {}, each with the entries in the cache when it comes, "
                "against {} for the last query of step {}: what the cache could know then. A dot "
                "for each head, means over its query heads; N = {}.{}",
                asked_text(*input.trace), predicted, step, budget,
                by_bound ? " Dashed: ℒ = θ, which nothing proves for queries that come later." : "")
          : fmt::format(
                "Loss ℒ = ‖(A − A′)VW_O‖₁ of the last query of step {} against {} for the same "
                "query. A dot for each head, means over its query heads; N = {}.{}",
                step, predicted, budget,
                by_bound ? " Dashed: ℒ = θ; without merging no dot lies above it." : "");
  if (by_bound && !later) figure->caption_text += tightness_text(*figure);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "predicted-loss", "Predicted and measured loss",
      "Each head: what predicts its loss, the bound θ (CriticalKV, theorem 3.3; ℒ ≤ θ is proven "
      "for the same query) or the attention lost, and the loss ℒ that was measured, for the step's "
      "last query or for queries that come later",
      Topic::perturbation, compute, kTwoColumns, 2.2);
  info.needs = {.step = true, .comparison = true};
  info.choices = {
      word_choice("predicted", "Predicted by",
                  "The bound θ, or the attention that is lost, of the step's last query",
                  {"bound", "lost-attention"}),
      word_choice("queries", "Measured for",
                  "The loss of the step's last query, or of the answer's queries (else the "
                  "question's, else all later ones)",
                  {"step", "later"}),
      policies_choice(published_list({"A", "B", "snapkv"}))};
  info.unavailable = no_perturbation;
  return info;
}

}  // namespace kvloupe::figure::predicted_loss_figure

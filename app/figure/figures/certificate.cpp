// The promise of kvloupe advise as a picture: each policy's loss by budget, its bound, and the
// smallest budget from which on the bound stays within the limit.

#include "analysis/study/advice.h"
#include "analysis/study/study_table.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::certificate_figure {

namespace {

LinePanels::Panel panel_of(const PolicyAdvice& one, double at_most) {
  LinePanels::Panel panel{.title = one.policy};
  LinePanels::Line mean{.marked = true, .id = "mean loss"};
  LinePanels::Band band;
  band.high_id = "bound";
  for (std::size_t b = 0; b < one.budgets.size(); ++b) {
    const BudgetRisk& at = one.budgets[b];
    mean.points.push_back({at.entries, at.mean});
    band.x.push_back(at.entries);
    band.low.push_back(at.mean);
    band.high.push_back(at.bound);
  }
  panel.lines.push_back(std::move(mean));
  panel.bands.push_back(std::move(band));
  panel.levels.push_back({at_most, ""});
  if (one.promised >= 0) {
    const BudgetRisk& at = one.budgets[static_cast<std::size_t>(one.promised)];
    panel.levels.push_back({at.entries, budget_text(at.budget), false});
  }
  return panel;
}

/// The first of measures_in_order() that is a loss without more being said; empty: none.
std::string usual_measure(const StudyTable& study) {
  for (const std::string& name : measures_in_order(study)) {
    const StudyMeasure measure = described(name);
    if (measure.share && measure.better != Better::neither) return name;
  }
  return {};
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress&) {
  const bool chosen = input.choice("measure") != "first";
  const MeasureTable table =
      chosen_table(input, false, chosen ? std::string() : usual_measure(*input.evaluation->study));
  AdviceRequest request{.measure = table.measure,
                        .at_most = chosen_number(input, "at-most"),
                        .risk = chosen_number(input, "risk") / 100.0,
                        .largest = chosen_number(input, "largest"),
                        .over_full = input.choice("beside") == "full",
                        .together = input.choice("together") == "yes",
                        .block = table.block};
  auto figure = std::make_unique<LinePanels>();
  Advice advice;
  try {
    advice = advise(*input.evaluation->study, request);
  } catch (const UsageError& error) {
    throw WorkError(std::string("figure certificate: ") + error.what());
  }
  ValueRange x, y;
  y.add(request.at_most);
  long fewest = 0, most = 0;
  std::string promised;
  figure->add_row(
      {"policy", "budget", "entries", "prompts", "mean_loss", "bound", "conformal", "promised"});
  for (const PolicyAdvice& one : advice.policies) {
    if (one.budgets.empty()) continue;
    figure->panels.push_back(panel_of(one, request.at_most));
    fewest = most == 0 ? one.prompts : std::min(fewest, one.prompts);
    most = std::max(most, one.prompts);
    for (int b = 0; b < static_cast<int>(one.budgets.size()); ++b) {
      const BudgetRisk& at = one.budgets[static_cast<std::size_t>(b)];
      x.add(at.entries);
      y.add(at.bound);
      figure->add_row({one.policy, at.budget, at.entries, one.prompts, at.mean, at.bound,
                       at.conformal, one.promised >= 0 && b >= one.promised});
    }
    promised += fmt::format(
        "{}{} {}", promised.empty() ? "" : ", ", one.policy,
        one.promised < 0 ? "none"
                         : budget_text(one.budgets[static_cast<std::size_t>(one.promised)].budget));
  }
  for (LinePanels::Panel& panel : figure->panels) {
    panel.x = x_axis("Budget N (entries)", x.padded_log(), AxisScale::log);
    panel.y = y_axis("Loss", y.from_zero());
    panel.y_grid = true;
  }
  figure->caption_text = fmt::format(
      "Loss by budget, {}{}: line, mean over {}{}; band, up to the bound of the expected loss, "
      "which is too low with a probability of at most {:g} %{}; dashed, the limit {:g}. Upright: "
      "the smallest budget from which on the bound is within the limit: {}.{}{}",
      advice.loss, table.block == "capture" ? "" : ", block " + table.block,
      fewest < most ? format_count(fewest) + " to " : "", prompts_text(table, most),
      100.0 * request.risk, request.together ? " for all policies together" : "", request.at_most,
      promised,
      most < advice.needed ? fmt::format(" A promise takes at least {} prompts.", advice.needed)
                           : "",
      closing_text(input, table.measure));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "certificate", "Budgets with a promise",
      "For each policy the smallest budget whose expected loss on new prompts of the same kind is "
      "within a limit, with an exact binomial bound or that of Hoeffding and Bentkus (Bates et al. "
      "2021)",
      compute, kTwoColumns, 1.8);
  info.choices = {
      study_measure_choice(),
      number_choice("at-most", "At most", "The largest expected loss", "0.1", 1e-9, 1e9),
      number_choice("risk", "Risk (%)", "The risk that a promise is wrong, in percent", "5", 1e-6,
                    99.0),
      number_choice("largest", "Largest loss",
                    "For a measure that is no share: larger losses count as this; 0: "
                    "the measure is a share",
                    "0", 0.0, 1e9),
      word_choice("beside", "Beside",
                  "The loss itself, or what a prompt loses beside the full cache",
                  {"nothing", "full"}),
      word_choice("together", "Together",
                  "The risk is that of each policy's promise, or that the promise of any policy is "
                  "wrong: for "
                  "whoever chooses a policy by this figure",
                  {"no", "yes"}),
      study_block_choice()};
  return info;
}

}  // namespace kvloupe::figure::certificate_figure

// Quality of a model with each policy in its cache, against the budget.

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::perplexity_budget_figure {

namespace {

/// The number that is drawn over the budgets, for each policy and budget.
struct Shown {
  const char* choice;
  const char* label;     // of the y axis
  const char* measure;   // its column
  const char* in_words;  // for the caption
  double of_full;        // what the full cache has
  double (*of_run)(const EvaluationRun& run);
};
constexpr Shown kShown[] = {
    {"needles", "Needles found (%)", "found_percent", "Needles found, in percent", 100.0,
     [](const EvaluationRun& run) { return 100.0 * run.correct; }},
    {"auto", "Δ perplexity", "perplexity_difference", "Perplexity minus that of the full cache",
     0.0,
     [](const EvaluationRun& run) {  // of its own loss
       return std::exp(run.loss) - std::exp(run.loss - run.loss_difference);
     }},
    {"loss", "Δ loss (nats)", "loss_difference_nats",
     "Mean −log p of a token minus that of the full cache, in nats", 0.0,
     [](const EvaluationRun& run) { return run.loss_difference; }},
    {"kl", "KL (nats)", "kl_nats",
     "KL(full ‖ policy) of the next-token distributions, mean over the tokens, in nats", 0.0,
     [](const EvaluationRun& run) { return run.kl; }},
    {"top1", "Same top-1 token (%)", "same_top1_percent",
     "Tokens with the same most probable next token as the full cache, in percent", 100.0,
     [](const EvaluationRun& run) { return 100.0 * run.same_top1; }},
};
const Shown& shown(std::string_view choice) {
  return *std::find_if(std::begin(kShown), std::end(kShown), [&](const Shown& one) {
    return one.choice == (choice == "perplexity" ? "auto" : choice);
  });
}

/// The known numbers of a policy's runs at a budget, one of each prompt.
std::vector<double> numbers_of(const Evaluation& evaluation, const Shown& what,
                               const std::string& policy, const std::string& budget) {
  std::vector<double> numbers;
  for (const EvaluationRun& run : evaluation.runs) {
    if (run.policy != policy || run.budget != budget) continue;
    if (const double value = what.of_run(run); std::isfinite(value)) numbers.push_back(value);
  }
  return numbers;
}

/// The mean over the prompts, one at least, and its 95 % interval over others of the kind; of
/// perplexities those of the mean losses, as in the file's summary.
MeanInterval interval_of(const Evaluation& evaluation, const Shown& what, const std::string& policy,
                         const std::string& budget) {
  const bool of_losses = &what == &shown("perplexity");
  std::vector<double> numbers =
      numbers_of(evaluation, of_losses ? shown("loss") : what, policy, budget);
  const double factor = what.of_full > 0.0 ? 100.0 : 1.0;  // of a share
  for (double& number : numbers) number /= factor;
  MeanInterval interval = mean_interval(numbers, &what == &shown("needles"));
  for (double* one : {&interval.mean, &interval.low, &interval.high}) *one *= factor;
  if (!of_losses) return interval;
  // Perplexities differ by the full cache's, times e to the difference of the losses, less 1.
  const double full = mean_of(evaluation, "full", "full", &EvaluationRun::loss);
  const double more = mean_of(evaluation, policy, budget, &EvaluationRun::loss) - full;
  const auto difference = [&](double mean) {
    return std::exp(full) * std::expm1(more + mean - interval.mean);
  };
  return MeanInterval{difference(interval.mean), difference(interval.low),
                      difference(interval.high)};
}

/// The place of a budget: in percent of the prompt if any is written so, else in entries.
double place_of(const Evaluation& evaluation, const std::string& budget, bool percent) {
  if (percent) {
    if (const auto written = percent_of(budget)) return *written;
  }
  const BudgetSize size = mean_size(evaluation, budget);
  return percent ? 100.0 * size.share : size.entries;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const Evaluation& evaluation = *input.evaluation;
  const bool needles = evaluation.task == Evaluation::Task::needle;
  const std::string& chosen = input.choice("measure");
  if (needles && chosen != "auto") {
    throw UsageError("figure perplexity-budget: measure=" + chosen +
                     " is of results with perplexity; these are of needles, leave it out");
  }
  const Shown& what = shown(needles ? "needles" : chosen);
  std::vector<std::string> budgets = evaluation.budgets();
  const bool percent = std::any_of(budgets.begin(), budgets.end(), [](const std::string& budget) {
    return percent_of(budget).has_value();
  });
  const auto place = [&](const std::string& budget) {
    return place_of(evaluation, budget, percent);
  };
  std::stable_sort(budgets.begin(), budgets.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  std::vector<double> places;
  for (const std::string& budget : budgets) places.push_back(place(budget));
  const std::ptrdiff_t prompts =
      std::count_if(evaluation.runs.begin(), evaluation.runs.end(),
                    [](const EvaluationRun& run) { return run.budget == "full"; });
  BudgetCurves curves(places, evaluation.policies().size() - 1, static_cast<std::size_t>(prompts));
  int look = 0;
  for (const std::string& policy : evaluation.policies()) {
    if (policy == "full") continue;
    curves.add_policy(policy, look++);
    for (const std::string& budget : budgets) {
      const std::vector<double> numbers = numbers_of(evaluation, what, policy, budget);
      if (numbers.empty()) continue;
      curves.add(place(budget), interval_of(evaluation, what, policy, budget), numbers);
    }
  }
  LinePanels::Panel panel = curves.panel(percent);
  mark_chance(panel, evaluation.policies());
  curves.y.add(what.of_full);
  const bool of_hundred = what.of_full > 0.0;
  if (of_hundred) curves.y.add(0.0);
  panel.levels.push_back({what.of_full, ""});
  panel.y =
      y_axis(what.label, of_hundred ? within(curves.y.padded(), kPercent) : curves.y.padded());
  const std::string dots =
      curves.has_dots() ? " Dots: each prompt, where there are fewer than 10." : "";
  const std::string intervals =
      panel.bands.empty() ? ""
      : needles           ? " Bands: 95 % intervals of a share of that many prompts (Wilson)."
      : &what == &shown("perplexity")
          ? fmt::format(
                " Bands: 95 % of {} bootstrap resamples of the prompts, with the full "
                "cache’s perplexity as it is.",
                format_count(kResamples))
          : fmt::format(" Bands: 95 % of {} bootstrap resamples of the prompts.",
                        format_count(kResamples));
  auto figure =
      line_panels(percent ? "budget_percent" : "budget_entries", what.measure, {std::move(panel)});
  figure->caption_text = fmt::format(
      "{}, with each policy in the model's own cache{}, by budget; dashed: the full cache, which "
      "ran {} prompt{}.{}",
      what.in_words, evaluation.model.empty() ? "" : " (" + evaluation.model + ")", prompts,
      prompts == 1 ? "" : "s", dots + intervals);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = evaluation_figure(
      "perplexity-budget", "Perplexity or needles by budget",
      "Quality of the model with each policy in its cache: perplexity minus the "
      "full cache's (after CAOTE table 4; it may be negative), or, for "
      "results with needles, the share found; each with its 95 % interval, or with the "
      "prompts where they are fewer than 10",
      compute, kColumn, 1.4);
  info.choices = {word_choice(
      "measure", "Measure",
      "Of results with perplexity: the difference of the perplexity (auto) or of the loss, KL from "
      "the full cache's distributions, or how often the most probable token is the same. auto, of "
      "results with needles: the share found",
      {"auto", "perplexity", "loss", "kl", "top1"})};
  return info;
}

}  // namespace kvloupe::figure::perplexity_budget_figure

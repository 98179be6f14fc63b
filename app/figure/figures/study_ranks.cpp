// Policies of a study ranked on every prompt: mean ranks with a critical difference.

#include <numeric>

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_ranks_figure {

namespace {

constexpr double kRow = 13.0;     // points; the name of every policy is there
constexpr double kPanel = 130.0;  // the least width with the policies' names

/// The ranks at one budget.
struct Ranked {
  std::string budget;
  PolicyRanks ranks;
  /// Half of the critical difference: two policies differ where their bars do not meet.
  double half() const { return ranks.critical_difference / 2.0; }
  bool as_good_as_the_best(std::size_t policy) const {
    const auto& all = ranks.mean_ranks;
    return ranks.p >= kRankAlpha ||
           all[policy] - *std::min_element(all.begin(), all.end()) < ranks.critical_difference;
  }
};

std::string p_text(double p) { return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.3f}", p); }

class StudyRanks final : public Figure {
 public:
  std::vector<std::string> policies;  // the best first, by the mean over the budgets
  std::vector<std::string> chance;    // [policies] chance_names()
  std::vector<Ranked> budgets;        // ranks in the order of `policies`
  std::string measure;                // by which they are ranked: above the panels
  bool has_best = true;               // whether rank 1 is more than the smallest value

  double natural_height(const DrawRequest& request) const override {
    return height(request, fewest_columns(request.width), kRow);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    scene.add(make_text(style, fit_words(style, measure, style.text, request.width - 4.0),
                        {2.0, 2.0 + style.fonts->cap_height() * style.text}));
    const std::vector<Axes> axes = add_panels(scene, style, panels(style, columns(request)));
    for (std::size_t b = 0; b < axes.size(); ++b) draw_panel(scene, style, axes[b], budgets[b]);
    keep_fitting_texts(scene);
    return scene;
  }

 private:
  int fewest_columns(double width) const {
    return std::clamp(static_cast<int>(width / kPanel), 1,
                      std::max(1, static_cast<int>(budgets.size())));
  }
  /// The height with so many columns and so much room for each policy.
  double height(const DrawRequest& request, int columns, double row) const {
    PanelGrid flat = panels(request.style, columns);
    flat.aspect = 1e9;  // the height of all but the plots
    const auto across = static_cast<std::size_t>(columns);
    const std::size_t rows = (budgets.size() + across - 1) / across;
    return panels_natural_height(request.style, flat, request.width) +
           row * static_cast<double>(rows * policies.size());
  }
  /// As few as the width has room for, more where a given height has no room for the names of all
  /// policies below each other.
  int columns(const DrawRequest& request) const {
    const double least = 1.3 * request.style.small;  // a line of names
    int columns = fewest_columns(request.width);
    while (columns < static_cast<int>(budgets.size()) &&
           height(request, columns, least) > request.height) {
      ++columns;
    }
    return columns;
  }

  PanelGrid panels(const Style& style, int columns) const {
    PanelGrid grid{.columns = columns, .top = 2.0 + 1.4 * style.text, .beside = 6.0};
    const auto most = static_cast<double>(policies.size());
    ValueRange range;
    for (const Ranked& one : budgets) {
      for (const double rank : one.ranks.mean_ranks) {
        range.add(rank - one.half());
        range.add(rank + one.half());
      }
    }
    range.add(1.0);
    range.add(most);
    // Bars that go on where there are no ranks are cut.
    range = within(range.padded(0.02), {0.5, most + 0.5});
    for (const Ranked& one : budgets) {
      grid.panels.push_back(Panel{
          .title = budget_text(one.budget),
          .x = x_axis(has_best ? "Mean rank (1 is best)" : "Mean rank (1 is smallest)", range),
          .y = name_axis(policies),
          .x_grid = true});
    }
    return grid;
  }

  /// A line through all rows at the rank of chance.
  static void add_chance(Scene& scene, const Style& style, const Axes& axes, double rank) {
    const SeriesLook look = chance_look(style);
    scene.add(make_line({axes.to_page(rank, 0.0).x, axes.plot.y},
                        {axes.to_page(rank, 0.0).x, axes.plot.bottom()}, look.colour, look.width,
                        look.dash));
  }

  void draw_panel(Scene& scene, const Style& style, const Axes& axes, const Ranked& one) const {
    const double cell = axes.plot.height / static_cast<double>(policies.size());
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (!chance[p].empty()) add_chance(scene, style, axes, one.ranks.mean_ranks[p]);
    }
    for (std::size_t p = 0; p < policies.size(); ++p) {
      const bool good = one.as_good_as_the_best(p);
      const double rank = one.ranks.mean_ranks[p];
      const double row = static_cast<double>(p) + 0.5;
      SeriesLook look;
      look.colour = good ? style.colours.retained : style.colours.evicted;
      look.filled = good;
      Path bar =
          make_line(axes.to_page(rank - one.half(), row), axes.to_page(rank + one.half(), row),
                    look.colour.with_alpha(0.35), std::clamp(0.3 * cell, 1.5, 4.0));
      scene.add(PushClip{axes.plot});
      scene.add(std::move(bar));
      scene.add(PopClip{});
      add_dots(scene, style, axes, std::vector<Point>{{rank, row}}, look,
               std::clamp(0.45 * cell, 2.5, 5.0));
    }
  }
};

/// The ranks at a budget of the prompts that have a value of every policy; none with fewer than
/// two.
std::optional<PolicyRanks> ranks_at(const MeasureTable& table,
                                    const std::vector<std::size_t>& policies, std::size_t budget,
                                    bool larger_is_better) {
  std::vector<std::string> prompts;
  std::vector<std::vector<double>> known(policies.size());
  for (std::size_t prompt = 0; prompt < table.prompts.size(); ++prompt) {
    std::vector<double> row;
    for (const std::size_t p : policies) row.push_back(table.value(p, budget, prompt));
    if (!std::all_of(row.begin(), row.end(), [](double value) { return std::isfinite(value); }))
      continue;
    for (std::size_t p = 0; p < row.size(); ++p) known[p].push_back(row[p]);
    prompts.push_back(table.prompts[prompt]);
  }
  for (std::vector<double>& own : known) own = context_means(own, contexts_of(prompts));
  std::vector<double> complete;
  for (std::size_t row = 0; row < known.front().size(); ++row) {
    for (const std::vector<double>& own : known) complete.push_back(own[row]);
  }
  if (complete.size() < 2 * policies.size()) return std::nullopt;
  return rank_policies(complete, static_cast<int>(policies.size()), larger_is_better);
}

std::string tests_text(const std::vector<Ranked>& budgets) {
  std::string text;
  for (const Ranked& one : budgets) {
    text += fmt::format("{}{}: N = {}, F = {}, {}, critical difference {}",
                        text.empty() ? "" : "; ", budget_text(one.budget), one.ranks.prompts,
                        std::isinf(one.ranks.f) ? "∞" : format_number(one.ranks.f),
                        p_text(one.ranks.p), format_number(one.ranks.critical_difference));
  }
  return text;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const MeasureTable table = chosen_table(input);
  const StudyMeasure measure = described(table.measure);
  std::vector<std::size_t> wanted(table.budgets.size());
  std::iota(wanted.begin(), wanted.end(), std::size_t{0});
  if (input.choice("budget") != "all") {
    wanted = {chosen_budget(input, table)};
  }
  // Policies to which the measure does not apply are not compared.
  std::vector<std::size_t> policies;
  for (std::size_t p = 0; p < table.policies.size(); ++p) {
    const bool any = std::any_of(wanted.begin(), wanted.end(), [&](std::size_t b) {
      const std::vector<double> row = table.row(p, b);
      return std::any_of(row.begin(), row.end(), [](double value) { return std::isfinite(value); });
    });
    if (any) policies.push_back(p);
  }
  if (policies.size() < 2) {
    throw WorkError(fmt::format(
        "figure study-ranks: ranks need two policies with values of measure {}; the study has {}",
        table.measure, policies.size()));
  }
  auto figure = std::make_unique<StudyRanks>();
  std::vector<double> total(policies.size(), 0.0);
  for (const std::size_t b : wanted) {
    progress.check();
    auto ranks = ranks_at(table, policies, b, measure.better == Better::larger);
    if (!ranks) continue;
    for (std::size_t p = 0; p < policies.size(); ++p) total[p] += ranks->mean_ranks[p];
    figure->budgets.push_back({table.budgets[b], std::move(*ranks)});
  }
  if (figure->budgets.empty()) {
    throw WorkError(
        "figure study-ranks: ranks need two prompts with values of all policies; let the study go "
        "on, or show figure study-budget");
  }
  std::vector<std::size_t> order(policies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return total[a] < total[b]; });
  for (const std::size_t place : order) figure->policies.push_back(table.policies[policies[place]]);
  figure->chance = chance_names(figure->policies);
  figure->add_row({"budget", "policy", "mean_rank", "critical_difference", "prompts", "chi_squared",
                   "f", "p", "as_good_as_the_best"});
  for (Ranked& one : figure->budgets) {
    PolicyRanks& ranks = one.ranks;
    std::vector<double> sorted;
    for (const std::size_t place : order) sorted.push_back(ranks.mean_ranks[place]);
    ranks.mean_ranks = std::move(sorted);
    for (std::size_t p = 0; p < figure->policies.size(); ++p) {
      figure->add_row({one.budget, figure->policies[p], ranks.mean_ranks[p],
                       ranks.critical_difference, ranks.prompts, ranks.chi_squared, ranks.f,
                       ranks.p, one.as_good_as_the_best(p)});
    }
  }
  figure->measure = measure.title;
  figure->has_best = measure.better != Better::neither;
  const char* direction = measure.better == Better::larger    ? "the largest value is best"
                          : measure.better == Better::smaller ? "the smallest value is best"
                                                              : "the smallest value is rank 1";
  const bool drawn_chance = std::any_of(figure->chance.begin(), figure->chance.end(),
                                        [](const std::string& name) { return !name.empty(); });
  figure->caption_text = fmt::format(
      "Policies ranked on each prompt by {}{} ({}){}: mean ranks. Bars are as long as Nemenyi's "
      "critical difference (α = 0.05, studentized range computed for infinitely many degrees of "
      "freedom, Demšar 2006): two policies differ if their bars do not overlap. Filled: {}. "
      "Friedman test (Iman and Davenport's F): {}.{}{}{}",
      measure.title, task_text(measure), direction,
      table.block == "capture" ? "" : ", block " + table.block,
      figure->has_best ? "not worse than the best; open: worse"
                       : "not larger than the smallest; open: larger",
      tests_text(figure->budgets),
      std::any_of(figure->budgets.begin(), figure->budgets.end(),
                  [](const Ranked& one) { return one.ranks.p >= kRankAlpha; })
          ? (figure->has_best ? " Where p is 0.05 or more, no policy counts as worse."
                              : " Where p is 0.05 or more, no policy counts as larger.")
          : "",
      !drawn_chance ? ""
      : figure->has_best
          ? " Dashed: random with what the policies protect; a score with a larger rank does "
            "not help."
          : " Dashed: random with what the policies protect.",
      closing_text(input, table.measure));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "study-ranks", "Ranks of policies, over prompts",
      "Policies ranked on each prompt of a study: mean ranks, the Friedman test, and Nemenyi's "
      "critical difference (Demšar 2006)",
      compute, kColumn, 1.6);
  info.unfit = [](const Evaluation& evaluation) -> std::string {
    if (std::string why = why_no_study(evaluation); !why.empty()) return why;
    const StudyTable& study = *evaluation.study;
    if (study.compared_policies >= 2 && study.compared_prompts >= 2) return {};
    return fmt::format("has values of {} of its policies on {} prompts; ranks need two of each",
                       study.compared_policies, study.compared_prompts);
  };
  info.choices = {study_measure_choice(), study_budget_choice("all"), study_block_choice()};
  return info;
}

}  // namespace kvloupe::figure::study_ranks_figure

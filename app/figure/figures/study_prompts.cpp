// Prompts × policies of a study at one budget: which prompts a policy fails, and whether all fail
// the same.

#include <numeric>

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_prompts_figure {

namespace {

class StudyPrompts final : public PanelFigure {
 public:
  StudyMeasure measure;
  std::vector<std::string> policies;  // of the columns; "full" first where the task runs it
  std::vector<std::string> prompts;   // of the rows
  std::vector<float> values;          // [prompts,policies]; NaN: not known
  std::vector<int> items;             // [prompts,policies]; −1: none

  double natural_height(const DrawRequest& /*request*/) const override {
    return std::clamp(9.0 * static_cast<double>(prompts.size()), 90.0, 520.0) + 70.0;
  }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const ColourScale colours = scale(request);
    const int rows = static_cast<int>(prompts.size()), columns = static_cast<int>(policies.size());
    add_cells(scene, request.style, axes.front(), values, rows, columns, colours);
    for (std::size_t cell = 0; cell < items.size(); ++cell) {
      Target target{.run = items[cell]};
      if (target.run < 0) continue;
      const auto row = static_cast<double>(cell / policies.size());
      const auto column = static_cast<double>(cell % policies.size());
      const Point a = axes.front().to_page(column, row);
      const Point b = axes.front().to_page(column + 1.0, row + 1.0);
      scene.regions.push_back(
          {{std::min(a.x, b.x), std::min(a.y, b.y), std::abs(b.x - a.x), std::abs(b.y - a.y)},
           target});
    }
    add_colour_bar(scene, request.style, axes.front().plot, colours);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"prompt", "policy", "item", measure.name});
    for (std::size_t cell = 0; cell < values.size(); ++cell) {
      csv.row({prompts[cell / policies.size()], policies[cell % policies.size()], items[cell],
               values[cell]});
    }
  }

  std::string value_text(const Target& target) const override {
    const auto found = std::find(items.begin(), items.end(), target.run);
    if (target.run < 0 || found == items.end()) return {};
    const auto cell = static_cast<std::size_t>(found - items.begin());
    // Policy and number of the prompt are read at the axes.
    const std::string& prompt = prompts[cell / policies.size()];
    return fmt::format("{}: {} ({})", axis_text(measure),
                       format_number(static_cast<double>(values[cell])),
                       prompt.substr(prompt.rfind('/') + 1));
  }

  /// Of a measure that is 0 or 1, each policy's share of the prompts; empty of others.
  std::string shares_text() const {
    std::string text;
    for (std::size_t p = 0; p < policies.size(); ++p) {
      long hits = 0, known = 0;
      for (std::size_t cell = p; cell < values.size(); cell += policies.size()) {
        if (!measure.share ||
            (values[cell] != 0.0F && values[cell] != 1.0F && !std::isnan(values[cell])))
          return {};
        hits += values[cell] == 1.0F;
        known += !std::isnan(values[cell]);
      }
      if (known == 0) continue;
      const MeanInterval share = wilson_share(hits, known);
      text += fmt::format("{}{} {} of {} ({:.2f} to {:.2f})", text.empty() ? " Shares: " : ", ",
                          column_name(policies[p]), hits, known, share.low, share.high);
    }
    return text.empty() ? text : text + "; in brackets Wilson’s 95 % intervals.";
  }

 private:
  static std::string column_name(const std::string& policy) {
    return policy == kFullCache ? "full cache" : policy;
  }

  ColourScale scale(const DrawRequest& request) const {
    ValueRange shown;
    for (const float value : values) shown.add(static_cast<double>(value));
    ColourScale colours{.map = request.style.amounts,
                        .low = measure.share || shown.empty() ? 0.0 : shown.low,
                        .high = measure.share || shown.empty() ? 1.0 : shown.high};
    if (!(colours.high > colours.low)) colours.high = colours.low + 1.0;
    colours.label = axis_text(measure);
    choose_limits(colours, request.limits, bounds_of(measure));
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    std::vector<std::string> columns;
    for (const std::string& policy : policies) columns.push_back(column_name(policy));
    PanelGrid grid{.right = colour_bar_width(request.style, scale(request), 80.0)};
    grid.panels.push_back(Panel{
        .x = name_axis(std::move(columns), "Policy"),
        .y = name_axis(prompt_names(prompts), measure.task == kReplayTask ? "Trace" : "Prompt"),
        .is_map = true});
    return grid;
  }
};

/// The item of the full cache's run of each prompt, where the task makes one.
std::vector<int> full_items(const StudyTable& study, const MeasureTable& table) {
  std::vector<int> items(table.prompts.size(), -1);
  const std::string task = described(table.measure).task;
  for (const StudyResults::Item& item : study.items) {
    if (item.policy != kFullCache || item.task != task || item.block_word != table.block) continue;
    const auto prompt = std::find(table.prompts.begin(), table.prompts.end(), item.trace);
    if (prompt != table.prompts.end())
      items[static_cast<std::size_t>(prompt - table.prompts.begin())] = item.number;
  }
  return items;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const MeasureTable table = chosen_table(input);
  const std::size_t budget = chosen_budget(input, table);
  auto figure = std::make_unique<StudyPrompts>();
  figure->measure = described(table.measure);
  const bool full = std::any_of(table.full.begin(), table.full.end(),
                                [](double value) { return std::isfinite(value); });
  const std::vector<int> of_full = full_items(*input.evaluation->study, table);
  if (full) figure->policies.emplace_back(kFullCache);
  figure->policies.insert(figure->policies.end(), table.policies.begin(), table.policies.end());
  std::vector<std::size_t> order(table.prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (input.choice("prompts") == "mean") {
    const auto mean = [&](std::size_t prompt) {
      double sum = 0.0;
      int known = 0;
      for (std::size_t p = 0; p < table.policies.size(); ++p) {
        const double value = table.value(p, budget, prompt);
        if (!std::isfinite(value)) continue;
        sum += value;
        ++known;
      }
      // Prompts without any value come last.
      return known > 0 ? sum / known : -std::numeric_limits<double>::infinity();
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return mean(a) > mean(b); });
  }
  for (const std::size_t prompt : order) {
    figure->prompts.push_back(table.prompts[prompt]);
    if (full) {
      figure->values.push_back(static_cast<float>(table.full[prompt]));
      figure->items.push_back(of_full[prompt]);
    }
    for (std::size_t p = 0; p < table.policies.size(); ++p) {
      figure->values.push_back(static_cast<float>(table.value(p, budget, prompt)));
      figure->items.push_back(table.items[table.at(p, budget, prompt)]);
    }
  }
  figure->caption_text = fmt::format(
      "{}{} on {}, by policy, budget {}{}.{}{}{}", figure->measure.title,
      task_text(figure->measure), prompts_text(table, static_cast<long>(table.prompts.size())),
      budget_text(table.budgets[budget]), table.block == "capture" ? "" : ", block " + table.block,
      full ? " First column: the full cache." : "", figure->shares_text(),
      closing_text(input, table.measure));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "study-prompts", "Prompts under policies",
      "A measure of every prompt of a study under every policy at one budget: which prompts a "
      "policy fails, and whether all policies fail on the same prompts. A click on a run shows "
      "why",
      compute, kColumn, 1.4);
  info.limits = true;
  const ChoiceInfo prompts = word_choice(
      "prompts", "Prompts", "The order of the prompts: the study's, or by their mean over policies",
      {"study", "mean"});
  info.choices = {study_measure_choice(), study_budget_choice(), study_block_choice(), prompts};
  return info;
}

}  // namespace kvloupe::figure::study_prompts_figure

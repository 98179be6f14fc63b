// A table for a paper: the loss of each policy at each budget.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/error.h"
#include "analysis/measure/foretold_answers.h"
#include "analysis/policy/published.h"
#include "analysis/policy/random_line.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/figures.h"
#include "app/plot/cell_map.h"
#include "app/plot/panels.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure::loss_table_figure {

namespace {

/// The measure in the table's cells; less is better.
struct TableMeasure {
  const char* choice;
  const char* title;
  const char* beside;     // the colours, where few rows leave little room
  const char* catalogue;  // the measure of the catalogue, after the name of the queries
  const char* formula;
  double (*value)(const AskedReplay& answer);
};

double lost_attention_of(const AskedReplay& answer) {
  double sum = 0.0;
  for (const AskedHead& head : answer.heads) sum += 1.0 - head.kept_attention;
  return sum / static_cast<double>(answer.heads.size());
}

constexpr TableMeasure kTableMeasures[] = {
    {"change", "Change of the output", "Change", "_residual_change",
     "the length of the change (o′ − o)W_O of all heads of all layers together, relative to oW_O",
     [](const AskedReplay& answer) { return answer.residual_change; }},
    {"layer-error", "Change in the worst layer", "Worst layer", "_worst_layer_error",
     "the length of the change of a layer’s attention output relative to that output, in the layer "
     "where it is largest",
     [](const AskedReplay& answer) { return answer.worst_layer_error; }},
    {"lost-attention", "Attention lost", "Lost", "_kept_attention",
     "the attention lost, mean over all heads", lost_attention_of},
};

const TableMeasure& table_measure(const std::string& chosen, const Trace& trace) {
  // Without output weights nobody knows what heads add to the residual stream.
  const std::string_view name =
      trace.has_output_weight() ? std::string_view(chosen) : std::string_view("lost-attention");
  return *std::find_if(std::begin(kTableMeasures), std::end(kTableMeasures),
                       [&](const TableMeasure& one) { return name == one.choice; });
}

class LossTable final : public Figure {
 public:
  TableMeasure measure = kTableMeasures[0];
  std::vector<std::string> policies;
  bool with_chance = false;          // a row is the chance line of another one
  std::vector<std::string> budgets;  // as written
  std::vector<int> entries;          // [policies,budgets]
  std::vector<double> values;        // [policies,budgets]
  std::string queries;
  std::string foretold;  // how well the measure foretold answers; empty: not known

  double value(std::size_t policy, std::size_t budget) const {
    return values[policy * budgets.size() + budget];
  }

  double natural_height(const DrawRequest& request) const override {
    PanelGrid flat = grid(request);
    flat.aspect = 1e9;  // the height of all but the cells
    return panels_natural_height(request.style, flat, request.width) +
           kRow * static_cast<double>(policies.size());
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const ColourScale colours = scale(request);
    const Axes axes = add_panels(scene, style, grid(request)).front();
    const int rows = static_cast<int>(policies.size()), columns = static_cast<int>(budgets.size());
    const std::vector<float> shown(values.begin(), values.end());
    add_cells(scene, style, axes, shown, rows, columns, colours,
              [](double value) { return format_number(value); });
    std::vector<bool> best;
    for (std::size_t p = 0; p < policies.size(); ++p) {
      for (std::size_t b = 0; b < budgets.size(); ++b) best.push_back(is_best(p, b));
    }
    outline_cells(scene, style, axes.plot, best, rows, columns);
    add_colour_bar(scene, style, axes.plot, colours);
    const double width = axes.plot.width / columns, height = axes.plot.height / rows;
    for (int p = 0; p < rows; ++p) {
      for (int b = 0; b < columns; ++b) {
        Target target;  // a row and a column, not of this trace's layers or heads
        target.run = p * columns + b;
        scene.regions.push_back(
            {{axes.plot.x + b * width, axes.plot.y + p * height, width, height}, target});
      }
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "budget", "entries", measure.choice, "least_at_budget"});
    for (std::size_t p = 0; p < policies.size(); ++p) {
      for (std::size_t b = 0; b < budgets.size(); ++b) {
        csv.row({std::string_view(policies[p]), std::string_view(budgets[b]),
                 static_cast<long>(entries[p * budgets.size() + b]), value(p, b),
                 static_cast<long>(is_best(p, b))});
      }
    }
  }

  std::optional<Table> table() const override {
    Table table{.upper = {{""}, {"Budget", budgets.size()}}, .columns = {"Policy"}};
    for (const std::string& budget : budgets) table.columns.emplace_back(">" + budget);
    for (std::size_t p = 0; p < policies.size(); ++p) {
      Table::Row& row = table.rows.emplace_back();
      row.cells = {policies[p]};
      for (std::size_t b = 0; b < budgets.size(); ++b) {
        Table::Cell& cell = row.cells.emplace_back(
            std::isfinite(value(p, b)) ? format_number(value(p, b)) : "–");
        cell.best = is_best(p, b);
      }
    }
    return table;
  }

  std::string value_text(const Target& target) const override {
    const auto cell = static_cast<std::size_t>(target.run);
    if (target.run < 0 || cell >= values.size()) return {};
    return fmt::format("{}, N = {}: {}", policies[cell / budgets.size()],
                       format_count(entries[cell]), format_number(values[cell]));
  }

  std::string caption() const override {
    std::string sizes;
    for (std::size_t b = 0; b < budgets.size(); ++b)
      sizes += fmt::format("{}{}", b == 0 ? "" : ", ", format_count(entries[b]));
    return fmt::format(
        "{} by policy and budget, {}, each with the entries in the cache when it comes (open "
        "loop): {}. N = {} entries a head. Marked: the least at each budget, of one prompt.{}{}{}",
        measure.title, queries, measure.formula, sizes,
        with_chance
            ? " Random rows are chance: random with what the policies protect, acting when they "
              "do; a score that loses as much does not help."
            : "",
        foretold.empty() ? "" : " ", foretold);
  }

 private:
  static constexpr double kRow = 15.0;      // points
  static constexpr double kNarrow = 200.0;  // points: below, cells need the room of the names

  /// Whether no other policy loses less at the budget, as far as the digits shown tell.
  bool is_best(std::size_t policy, std::size_t budget) const {
    if (!std::isfinite(value(policy, budget))) return false;
    double least = value(policy, budget);
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (value(p, budget) < least) least = value(p, budget);
    }
    return format_number(value(policy, budget)) == format_number(least);
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts, .label = measure.beside};
    ValueRange range;
    range.add(values);
    colours.high = range.empty() || !(range.high > 0.0) ? 1.0 : range.high;
    choose_limits(colours, request.limits, Bounds{0.0, std::numeric_limits<double>::infinity()});
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const {
    const Style& style = request.style;
    PanelGrid grid;
    const auto all_end_with = [&](const auto& is_one) {
      return std::all_of(budgets.begin(), budgets.end(),
                         [&](const std::string& budget) { return is_one(budget.back()); });
    };
    Panel panel{.x = name_axis(budgets, "Budget")};  // of several kinds
    if (all_end_with([](char c) { return c == '%'; }))
      panel.x.label = "Budget (share of the prompt)";
    if (all_end_with([](char c) { return '0' <= c && c <= '9'; }))
      panel.x.label = "Budget N (entries)";
    std::vector<std::string> names =
        policies;  // the axis cuts long ones, each to a text of its own
    if (request.width < kNarrow) {
      for (std::string& name : names)
        name = fit_words(style, name, style.small, 0.36 * request.width);
    }
    panel.y = name_axis(std::move(names));
    panel.is_map = true;
    grid.panels = {std::move(panel)};
    grid.right =
        colour_bar_width(style, scale(request), kRow * static_cast<double>(policies.size()));
    return grid;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<LossTable>();
  figure->measure = table_measure(input.choice("measure"), *input.trace);
  figure->queries = asked_text(*input.trace);
  const std::vector<Budget> budgets = chosen_budgets(input);
  for (const Budget& budget : budgets) figure->budgets.push_back(budget.text());
  std::vector<WantedReplay> wanted;
  std::vector<PolicySpec> policies = chosen_policies(input);
  if (input.choice("random") == "shown") {
    for (PolicySpec& line : random_lines(policies)) policies.push_back(std::move(line));
  }
  for (const PolicySpec& policy : policies) {
    figure->policies.push_back(policy.text());
    for (const Budget& budget : budgets) {
      figure->entries.push_back(budget_entries(budget, *input.trace, policy));
      wanted.push_back({policy, budget});
    }
  }
  const std::vector<std::string> chance = chance_names(figure->policies);
  figure->with_chance = std::any_of(chance.begin(), chance.end(),
                                    [](const std::string& name) { return !name.empty(); });
  const Asked asked = asked_first(input.trace->tokens(), input.trace->run());
  figure->foretold = foretold_text(std::string(asked_name(asked)) + figure->measure.catalogue);
  const auto replays = replays_of(input, wanted, progress, kReplaySteps);
  for (const AskedReplay& answer : asked_of(input, replays, progress))
    figure->values.push_back(figure->measure.value(answer));
  if (std::none_of(figure->values.begin(), figure->values.end(),
                   [](double value) { return std::isfinite(value); })) {
    throw WorkError(
        "figure loss-table: no query of this trace comes later, so nothing tells what is lost");
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info{
      "loss-table", "Relative loss by policy and budget",
      "A table: how much the answer's queries lose (else the question's, else all later ones), for "
      "each policy at each budget, relative to the full cache. Also as LaTeX: -o table.tex",
      Topic::comparisons};
  info.limits = true;
  info.needs.comparison = true;
  info.width_mm = 120.0;
  info.aspect = 2.0;
  ChoiceInfo measure{"measure",
                     "Measure",
                     "What a cell holds: the change of the model's attention output, that of the "
                     "worst layer, or the attention lost",
                     {}};
  for (const TableMeasure& one : kTableMeasures) measure.values.emplace_back(one.choice);
  info.choices = {measure,
                  policies_choice(published_list({"A", "B", "h2o", "tova", "snapkv", "keydiff"})),
                  budgets_choice("5%,10%,20%,40%"), random_choice("row")};
  info.unavailable = without_full_cache;
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure::loss_table_figure

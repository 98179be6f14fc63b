// A table for a paper: the loss of each policy at each budget.

#include "analysis/policy/published.h"
#include "analysis/policy/random_line.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/measure/foretold_answers.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/cell_maps.h"
#include "app/figure/figures/figures.h"

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

class LossTable final : public CellMaps {
 public:
  static constexpr double kRow = 15.0;  // points
  Table numbers;

  double natural_height(const DrawRequest& request) const override {
    PanelGrid flat = grid(request);
    flat.aspect = 1e9;  // the height of all but the cells
    return panels_natural_height(request.style, flat, request.width) + kRow * rows;
  }

  std::optional<Table> table() const override { return numbers; }

 private:
  static constexpr double kNarrow = 200.0;  // points: below, cells need the room of the names

  PanelGrid grid(const DrawRequest& request) const override {
    PanelGrid grid = CellMaps::grid(request);
    if (request.width >= kNarrow) return grid;
    for (std::string& name : grid.panels.front().y.names)
      name = fit_words(request.style, name, request.style.small, 0.36 * request.width);
    return grid;
  }
};

std::string budgets_label(const std::vector<std::string>& budgets) {
  const auto all_end_with = [&](const auto& is_one) {
    return std::all_of(budgets.begin(), budgets.end(),
                       [&](const std::string& budget) { return is_one(budget.back()); });
  };
  if (all_end_with([](char c) { return c == '%'; })) return "Budget (share of the prompt)";
  if (all_end_with([](char c) { return '0' <= c && c <= '9'; })) return "Budget N (entries)";
  return "Budget";  // of several kinds
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<LossTable>();
  const TableMeasure& measure = table_measure(input.choice("measure"), *input.trace);
  const std::vector<Budget> budgets = chosen_budgets(input);
  Table& table = figure->numbers;
  table.upper = {{""}, {"Budget", budgets.size()}};
  table.columns = {"Policy"};
  std::vector<std::string> budget_names;
  for (const Budget& budget : budgets) {
    budget_names.push_back(budget.text());
    table.columns.emplace_back(">" + budget_names.back());
  }
  std::vector<WantedReplay> wanted;
  std::vector<PolicySpec> policies = chosen_policies(input);
  if (input.choice("random") == "shown") {
    for (PolicySpec& line : random_lines(policies)) policies.push_back(std::move(line));
  }
  std::vector<std::string> names;
  for (const PolicySpec& policy : policies) {
    names.push_back(policy.text());
    for (const Budget& budget : budgets) wanted.push_back({policy, budget});
  }
  const auto replays = replays_of(input, wanted, progress, kReplaySteps);
  std::vector<double> values;
  for (const AskedReplay& answer : asked_of(input, replays, progress))
    values.push_back(measure.value(answer));
  if (std::none_of(values.begin(), values.end(),
                   [](double value) { return std::isfinite(value); })) {
    throw WorkError(
        "figure loss-table: no query of this trace comes later, so nothing tells what is lost");
  }
  CellMaps::Map& map = figure->maps.emplace_back();
  map.values.assign(values.begin(), values.end());
  figure->add_row({"policy", "budget", "entries", measure.choice, "least_at_budget"});
  for (std::size_t cell = 0; cell < values.size(); ++cell) {
    const std::size_t p = cell / budgets.size(), b = cell % budgets.size();
    const double value = values[cell];
    double least = value;
    for (std::size_t i = b; i < values.size(); i += budgets.size()) {
      if (values[i] < least) least = values[i];
    }
    // No other policy loses less at the budget, as far as the digits shown tell.
    const bool best = std::isfinite(value) && format_number(value) == format_number(least);
    const int entries = budget_entries(budgets[b], *input.trace, policies[p]);
    map.outlined.push_back(best);
    map.runs.push_back(static_cast<int>(cell));  // a row and a column, not of layers or heads
    if (b == 0) table.add({names[p]});
    table.rows.back().cells.emplace_back(std::isfinite(value) ? format_number(value) : "–");
    table.rows.back().cells.back().best = best;
    figure->add_row({names[p], budget_names[b], entries, value, best});
    figure->say({.run = map.runs.back()}, fmt::format("{}, N = {}: {}", names[p],
                                                      format_count(entries), format_number(value)));
  }
  std::string sizes;
  for (const Budget& budget : budgets) {
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ",
                         format_count(budget_entries(budget, *input.trace, policies.front())));
  }
  const std::vector<std::string> chance = chance_names(names);
  const bool with_chance = std::any_of(chance.begin(), chance.end(),
                                       [](const std::string& name) { return !name.empty(); });
  const Asked asked = asked_first(input.trace->tokens(), input.trace->run());
  const std::string foretold = foretold_text(std::string(asked_name(asked)) + measure.catalogue);
  figure->caption_text = fmt::format(
      "{} by policy and budget, {}, each with the entries in the cache when it comes (open loop): "
      "{}. N = {} entries a head. Marked: the least at each budget, of one prompt.{}{}{}",
      measure.title, asked_text(*input.trace), measure.formula, sizes,
      with_chance ? " Random rows are chance: random with what the policies protect, acting when "
                    "they do; a score that loses as much does not help."
                  : "",
      foretold.empty() ? "" : " ", foretold);
  figure->rows = static_cast<int>(names.size());
  figure->columns = static_cast<int>(budgets.size());
  figure->x = name_axis(budget_names, budgets_label(budget_names));
  figure->y = name_axis(std::move(names));  // the axis cuts long ones, each to a text of its own
  figure->fit_colours(true);
  figure->colours.label = measure.beside;
  figure->bounds.least = 0.0;
  figure->number = [](double value) { return format_number(value); };
  figure->bar_height = LossTable::kRow * figure->rows;
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "loss-table", "Relative loss by policy and budget",
      "A table: how much the answer's queries lose (else the question's, else all later ones), for "
      "each policy at each budget, relative to the full cache. Also as LaTeX: -o table.tex",
      Topic::comparisons, compute, 120.0, 2.0);
  info.limits = true;
  info.needs.comparison = true;
  ChoiceInfo measure =
      word_choice("measure", "Measure",
                  "What a cell holds: the change of the model's attention output, that of the "
                  "worst layer, or the attention lost",
                  {});
  for (const TableMeasure& one : kTableMeasures) measure.values.emplace_back(one.choice);
  info.choices = {measure,
                  policies_choice(published_list({"A", "B", "h2o", "tova", "snapkv", "keydiff"})),
                  budgets_choice("5%,10%,20%,40%"), random_choice("row")};
  info.unavailable = without_full_cache;
  return info;
}

}  // namespace kvloupe::figure::loss_table_figure

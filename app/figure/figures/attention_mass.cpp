// Whether a first stage can gather half of the attention: CriticalKV's assumption 3.4.

#include <functional>

#include "analysis/math/attention.h"
#include "analysis/math/perturbation.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::attention_mass_figure {

namespace {

/// [places + 1]: the largest attention of the query at `token` added up, by how many entries.
std::vector<double> gathered(const LayerStates& states, const Trace& trace, int layer,
                             int query_head, int token) {
  const Matrix& keys =
      states.keys[static_cast<std::size_t>(trace.layer_model(layer).head_of(query_head))];
  const Matrix& queries = states.queries[static_cast<std::size_t>(query_head)];
  const LogitRule rule = trace.attention(layer).of(query_head);
  const int first = first_seen(token, trace.reach(layer));
  const auto query = queries.row(token);
  std::vector<double> attention =
      softmax(attention_logits({query.data(), static_cast<std::size_t>(query.size())},
                               rows(view(keys), first, token + 1 - first), rule),
              rule.sink);
  std::sort(attention.begin(), attention.end(), std::greater<>());
  std::vector<double> sums = {0.0};
  for (const double a : attention) sums.push_back(sums.back() + a);
  return sums;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const ModelInfo& model = trace.model();
  const double alpha = chosen_number(input, "alpha");
  std::vector<double> entries;  // ⌊αb⌋ of each budget
  std::vector<double> budgets;
  for (const Budget& budget : chosen_budgets(input)) {
    budgets.push_back(budget_entries(budget, trace));
    entries.push_back(std::floor(alpha * budgets.back() + 1e-9));
  }
  const double selected = budget_entries(input.budget, trace);
  const int token = trace.run().prompt_length - 1;
  std::vector<long> above(budgets.size(), 0);
  LinePanels::Panel share, mass;
  LinePanels::Line least{.name = "least", .look = 1, .marked = true};
  LinePanels::Line median{.name = "median", .marked = true};
  std::vector<double> smallest;
  progress.set_total(model.num_layers);
  progress.count("layers", model.num_layers);
  for (int layer = 0; layer < model.num_layers; ++layer) {
    progress.check();
    if (!trace.attends(layer)) {
      progress.advance();
      continue;
    }
    const auto states = input.replays->states().get(trace, layer, {}, progress);
    std::vector<double> of_layer;
    for (int query_head = 0; query_head < trace.layer_model(layer).num_heads; ++query_head) {
      const std::vector<double> sums = gathered(*states, trace, layer, query_head, token);
      const auto at = [&](double count) {
        return sums[std::min(sums.size() - 1, static_cast<std::size_t>(count))];
      };
      for (std::size_t b = 0; b < budgets.size(); ++b) above[b] += at(entries[b]) > 0.5;
      of_layer.push_back(at(std::floor(alpha * selected + 1e-9)));
      smallest.push_back(
          static_cast<double>(std::upper_bound(sums.begin(), sums.end(), 0.5) - sums.begin()));
    }
    least.points.push_back({layer + 0.5, quantile(of_layer, 0.0)});
    median.points.push_back({layer + 0.5, quantile(of_layer, 0.5)});
    progress.advance();
  }
  ValueRange x;
  LinePanels::Line line{.marked = true, .id = "query heads with σ > 0.5"};
  const auto all = static_cast<double>(smallest.size());
  for (std::size_t b = 0; b < budgets.size(); ++b) {
    line.points.push_back({budgets[b], 100.0 * static_cast<double>(above[b]) / all});
    x.add(budgets[b]);
  }
  share.title = "Query heads with σ > 0.5";
  share.lines.push_back(std::move(line));
  share.x = x_axis("Budget N (entries)", x.padded_log(), AxisScale::log);
  share.y = y_axis("Query heads (%)", {0.0, 100.0});
  share.y_grid = true;
  mass.title = fmt::format("σ at N = {}", format_count(static_cast<long>(selected)));
  mass.lines = {std::move(median), std::move(least)};
  mass.x = layer_names_axis(model.num_layers);
  mass.y = y_axis("σ", {0.0, 1.0});
  mass.levels.push_back({0.5, "", true});
  auto figure = line_panels("x", "value", {std::move(share), std::move(mass)});
  std::sort(smallest.begin(), smallest.end());
  figure->caption_text = fmt::format(
      "σ, the attention of the prompt's last query on its ⌊αN⌋ strongest entries, α = {}: a, share "
      "of the query heads with σ above one half; b, median and minimum over the query heads of "
      "each layer. Entries of the smallest first stage with σ above one half: {} in the "
      "median query head, {} in the worst.",
      format_number(alpha), format_count(static_cast<long>(smallest[smallest.size() / 2])),
      format_count(static_cast<long>(smallest.back())));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "attention-mass", "Attention mass of stage one",
      "Assumption 3.4 of CriticalKV, σ = Σ over the first stage of A > 0.5, where the stage holds "
      "the query's own strongest ⌊αN⌋ entries (CriticalKV, appendix A, figure 8). For the stage of "
      "a policy see stage_one_mass in the overview",
      Topic::perturbation, compute, kTwoColumns, 2.6);
  info.needs.comparison = true;
  info.choices = {
      budgets_choice("0.5%,1%,2.5%,5%,10%,20%,40%"),
      number_choice("alpha", "α", "The first stage's share of the budget", "0.5", 0.0, 1.0)};
  return info;
}

}  // namespace kvloupe::figure::attention_mass_figure

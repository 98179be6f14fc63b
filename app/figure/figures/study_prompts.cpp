// Prompts × policies of a study at one budget: which prompts a policy fails, and whether all fail
// the same.

#include <numeric>

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/cell_maps.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_prompts_figure {

namespace {

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

/// Of a measure that is 0 or 1, each policy's share of the prompts; empty of others.
std::string shares_text(const CellMaps& figure, const std::vector<std::string>& names) {
  const std::vector<float>& values = figure.maps.front().values;
  std::string text;
  for (std::size_t p = 0; p < names.size(); ++p) {
    long hits = 0, known = 0;
    for (std::size_t cell = p; cell < values.size(); cell += names.size()) {
      if (values[cell] != 0.0F && values[cell] != 1.0F && !std::isnan(values[cell])) return {};
      hits += values[cell] == 1.0F;
      known += !std::isnan(values[cell]);
    }
    if (known == 0) continue;
    const MeanInterval share = wilson_share(hits, known);
    text += fmt::format("{}{} {} of {} ({:.2f} to {:.2f})", text.empty() ? " Shares: " : ", ",
                        names[p], hits, known, share.low, share.high);
  }
  return text.empty() ? text : text + "; in brackets Wilson’s 95 % intervals.";
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const MeasureTable table = chosen_table(input);
  const std::size_t budget = chosen_budget(input, table);
  const StudyMeasure measure = described(table.measure);
  const bool full = std::any_of(table.full.begin(), table.full.end(),
                                [](double value) { return std::isfinite(value); });
  const std::vector<int> of_full = full_items(*input.evaluation->study, table);
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
  auto figure = std::make_unique<CellMaps>();
  CellMaps::Map& map = figure->maps.emplace_back();
  figure->add_row({"prompt", "policy", "item", measure.name});
  std::vector<std::string> prompts;
  for (const std::size_t prompt : order) {
    const std::string& name = prompts.emplace_back(table.prompts[prompt]);
    const auto add = [&](const std::string& policy, double value, int item) {
      map.values.push_back(static_cast<float>(value));
      map.runs.push_back(item);
      figure->add_row({name, policy, item, map.values.back()});
      if (item < 0) return;
      // Policy and number of the prompt are read at the axes.
      figure->say({.run = item}, fmt::format("{}: {} ({})", axis_text(measure),
                                             format_number(static_cast<double>(map.values.back())),
                                             name.substr(name.rfind('/') + 1)));
    };
    if (full) add(kFullCache, table.full[prompt], of_full[prompt]);
    for (std::size_t p = 0; p < table.policies.size(); ++p) {
      add(table.policies[p], table.value(p, budget, prompt),
          table.items[table.at(p, budget, prompt)]);
    }
  }
  std::vector<std::string> names = table.policies;
  if (full) names.insert(names.begin(), "full cache");
  figure->caption_text = fmt::format(
      "{}{} on {}, by policy, budget {}{}.{}{}{}", measure.title, task_text(measure),
      prompts_text(table, static_cast<long>(table.prompts.size())),
      budget_text(table.budgets[budget]), table.block == "capture" ? "" : ", block " + table.block,
      full ? " First column: the full cache." : "",
      measure.share &&
              context_means(table.full, contexts_of(table.prompts)).size() == table.prompts.size()
          ? shares_text(*figure, names)
          : "",
      closing_text(input, table.measure));
  figure->rows = static_cast<int>(prompts.size());
  figure->columns = static_cast<int>(names.size());
  figure->x = name_axis(std::move(names), "Policy");
  figure->y = name_axis(prompt_names(prompts), measure.task == kReplayTask ? "Trace" : "Prompt");
  figure->height = std::clamp(9.0 * static_cast<double>(prompts.size()), 90.0, 520.0) + 70.0;
  if (!measure.share) figure->fit_colours();
  figure->colours.label = axis_text(measure);
  figure->bounds = bounds_of(measure);
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

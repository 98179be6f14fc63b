#include "analysis/study/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "analysis/markdown.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/one_line.h"
#include "analysis/study/study_measures.h"

namespace kvloupe {

namespace {
/// Texts in the order of their first use.
std::vector<std::string> in_order(const std::vector<StudyResults::Item>& items,
                                  std::string StudyResults::Item::*text) {
  std::vector<std::string> result;
  for (const StudyResults::Item& item : items) {
    if (std::find(result.begin(), result.end(), item.*text) == result.end()) {
      result.push_back(item.*text);
    }
  }
  return result;
}

std::vector<StudyResults::Item> of_task(const std::vector<StudyResults::Item>& items,
                                        const std::string& task) {
  std::vector<StudyResults::Item> result;
  std::copy_if(items.begin(), items.end(), std::back_inserter(result),
               [&](const StudyResults::Item& item) { return item.task == task; });
  return result;
}

using ByTrace = std::map<std::string, double>;

std::optional<MeanInterval> interval(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return bootstrap_mean(values);
}
}  // namespace

std::vector<SummaryRow> summarise(StudyResults& results) {
  const std::vector<StudyResults::Item> items = results.items();
  const std::vector<std::string> measures = results.measures();
  std::map<int, const StudyResults::Item*> by_number;
  for (const StudyResults::Item& item : items) by_number[item.number] = &item;
  std::map<std::tuple<int, std::string, std::string, std::string>, ByTrace> cells;
  results.each_replay_value([&](int number, int measure, double value) {
    const auto item = by_number.find(number);
    if (item == by_number.end() || !std::isfinite(value)) return;
    const StudyResults::Item& one = *item->second;
    cells[{measure, one.block_word, one.budget, one.policy}][one.trace] = value;
  });
  std::vector<SummaryRow> rows;
  for (int m = 0; m < static_cast<int>(measures.size()); ++m) {
    // Takes the items that can have the measure. The full cache of a task is in the task's tables.
    const auto known = find_study_measure(measures[static_cast<std::size_t>(m)]);
    const std::vector<StudyResults::Item> own = of_task(items, known ? known->task : kReplayTask);
    std::vector<StudyResults::Item> budgeted = own;
    std::erase_if(budgeted, [](const StudyResults::Item& one) { return one.budget == kFullCache; });
    if (budgeted.empty()) continue;
    const std::string& first_policy = budgeted.front().policy;
    const std::vector<std::string> policies = in_order(own, &StudyResults::Item::policy);
    const std::vector<std::string> with_budget = in_order(budgeted, &StudyResults::Item::policy);
    for (const std::string& block : in_order(own, &StudyResults::Item::block_word)) {
      for (const std::string& budget : in_order(own, &StudyResults::Item::budget)) {
        const ByTrace& first = cells[{m, block, budget, first_policy}];
        for (const std::string& policy : policies) {
          if (budget == kFullCache
                  ? policy != kFullCache
                  : std::count(with_budget.begin(), with_budget.end(), policy) == 0)
            continue;
          std::vector<double> values, differences;
          for (const auto& [trace, value] : cells[{m, block, budget, policy}]) {
            values.push_back(value);
            const auto pair = first.find(trace);
            if (pair != first.end()) differences.push_back(value - pair->second);
          }
          SummaryRow row;
          row.measure = measures[static_cast<std::size_t>(m)];
          row.policy = policy;
          row.budget = budget;
          row.block = block;
          row.traces = static_cast<int>(values.size());
          row.value = interval(values);
          if (policy != first_policy && budget != kFullCache) {
            row.pairs = static_cast<int>(differences.size());
            row.from_first = interval(differences);
          }
          rows.push_back(std::move(row));
        }
      }
    }
  }
  return rows;
}

std::string summary_markdown(const std::vector<SummaryRow>& rows) {
  std::string text;
  const std::string* measure = nullptr;
  const auto cell = [](const std::optional<MeanInterval>& one) {
    return one ? fmt::format("{:.4g} [{:.4g}, {:.4g}]", one->mean, one->low, one->high)
               : std::string();
  };
  for (const SummaryRow& row : rows) {
    if (measure == nullptr || *measure != row.measure) {
      const Measure* known = find_measure(row.measure);
      text += (text.empty() ? "" : "\n") + in_one_line(row.measure, 200);
      if (known != nullptr && !known->info->unit.empty()) text += ", " + known->info->unit;
      text += fmt::format(
          "\n\n| policy | budget | block | traces | mean [95 %] | less {} [95 %], paired |\n"
          "| --- | --- | --- | --- | --- | --- |\n",
          table_cell(in_one_line(row.policy, 200)));
    }
    measure = &row.measure;
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n",
                        table_cell(in_one_line(row.policy, 200)), in_one_line(row.budget),
                        in_one_line(row.block), row.traces, cell(row.value), cell(row.from_first));
  }
  return text;
}

}  // namespace kvloupe

#include "analysis/study/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "analysis/measure/measure_catalog.h"
#include "analysis/study/study_measures.h"
#include "analysis/table.h"
#include "analysis/text.h"

namespace kvloupe {

namespace {
using Item = StudyResults::Item;
using Items = std::vector<const Item*>;

/// Texts in the order of their first use.
std::vector<std::string> in_order(const Items& items, std::string Item::*text) {
  std::vector<std::string> result;
  for (const Item* item : items) {
    if (std::find(result.begin(), result.end(), item->*text) == result.end())
      result.push_back(item->*text);
  }
  return result;
}

using ByTrace = std::map<std::string, double>;

/// The mean of the differences from another cell on the traces that have both.
std::optional<MeanInterval> less(const ByTrace& cell, const ByTrace& other, bool share,
                                 int& pairs) {
  std::vector<double> values, others;
  for (const auto& [trace, value] : cell) {
    const auto pair = other.find(trace);
    if (pair == other.end()) continue;
    values.push_back(value);
    others.push_back(pair->second);
  }
  pairs = static_cast<int>(values.size());
  if (values.empty()) return std::nullopt;
  return paired_interval(values, others, share);
}

std::string cell_text(const std::optional<MeanInterval>& one) {
  if (!one) return {};
  if (!std::isfinite(one->low)) return fmt::format("{:.4g}", one->mean);
  return fmt::format("{:.4g} [{:.4g}, {:.4g}]", one->mean, one->low, one->high);
}

/// The table of one measure.
std::string table_text(std::span<const SummaryRow> rows) {
  const Measure* known = find_measure(rows.front().measure);
  std::string text = in_one_line(rows.front().measure, 200);
  if (known != nullptr && !known->info->unit.empty()) text += ", " + known->info->unit;
  const bool full =
      std::any_of(rows.begin(), rows.end(), [](const SummaryRow& row) { return !!row.from_full; });
  const auto name = [](const std::string& one) { return in_one_line(one, 200); };
  Table table{.columns = {"policy", "budget", "block", "traces", "mean [95 %]"}};
  if (full) table.columns.emplace_back("less full [95 %], paired");
  table.columns.emplace_back("less " + name(rows.front().first_policy) + " [95 %], paired");
  for (const SummaryRow& row : rows) {
    table.add({name(row.policy), in_one_line(row.budget), in_one_line(row.block),
               std::to_string(row.traces), cell_text(row.value)});
    if (full) table.rows.back().cells.emplace_back(cell_text(row.from_full));
    table.rows.back().cells.emplace_back(cell_text(row.from_first));
  }
  return text + "\n\n" + markdown_table(table);
}
}  // namespace

std::vector<SummaryRow> summarise(StudyResults& results) {
  results.require_one_model();
  const std::vector<Item> items = results.items();
  const std::vector<std::string> measures = results.measures();
  std::map<std::tuple<int, std::string, std::string, std::string>, ByTrace> cells;
  results.each_replay_value([&](int number, int measure, double value) {
    // The study may have gone on since the items were read.
    if (static_cast<std::size_t>(number) >= items.size() || !std::isfinite(value)) return;
    const Item& one = items[static_cast<std::size_t>(number)];
    cells[{measure, one.block_word, one.budget, one.policy}][one.trace] = value;
  });
  std::vector<SummaryRow> rows;
  for (int m = 0; m < static_cast<int>(measures.size()); ++m) {
    // Takes the items that can have the measure. The full cache of a task is in the task's tables.
    const auto known = find_study_measure(measures[static_cast<std::size_t>(m)]);
    const bool share = known && known->share;
    Items own, budgeted;
    for (const Item& item : items) {
      if (item.task != (known ? known->task : kReplayTask)) continue;
      own.push_back(&item);
      if (item.budget != kFullCache) budgeted.push_back(&item);
    }
    if (budgeted.empty()) continue;
    const std::string& first_policy = budgeted.front()->policy;
    const std::vector<std::string> policies = in_order(own, &Item::policy);
    const std::vector<std::string> with_budget = in_order(budgeted, &Item::policy);
    for (const std::string& block : in_order(own, &Item::block_word)) {
      const ByTrace& full = cells[{m, block, kFullCache, kFullCache}];
      for (const std::string& budget : in_order(own, &Item::budget)) {
        const ByTrace& first = cells[{m, block, budget, first_policy}];
        for (const std::string& policy : policies) {
          if (budget == kFullCache
                  ? policy != kFullCache
                  : std::count(with_budget.begin(), with_budget.end(), policy) == 0)
            continue;
          const ByTrace& cell = cells[{m, block, budget, policy}];
          SummaryRow row{measures[static_cast<std::size_t>(m)], policy, budget, block, first_policy,
                         static_cast<int>(cell.size())};
          std::vector<double> values;
          for (const auto& [trace, value] : cell) values.push_back(value);
          if (!values.empty()) row.value = mean_interval(values, share);
          if (budget != kFullCache) {
            row.from_full = less(cell, full, share, row.full_pairs);
            if (policy != first_policy) row.from_first = less(cell, first, share, row.pairs);
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
  int fewest = kFewestForBootstrap;
  for (auto begin = rows.begin(), end = begin; begin != rows.end(); begin = end) {
    end = std::find_if(begin, rows.end(),
                       [&](const SummaryRow& row) { return row.measure != begin->measure; });
    text += (text.empty() ? "" : "\n") + table_text({begin, end});
    for (auto row = begin; row != end; ++row) {
      if (row->traces > 0) fewest = std::min(fewest, row->traces);
    }
  }
  if (fewest < kFewestForBootstrap) {
    text += fmt::format(
        "\nFewer than {} traces: intervals are too narrow, except those of measures that are 0 or "
        "1 "
        "on each trace. Look at the values themselves (kvloupe study csv).\n",
        kFewestForBootstrap);
  }
  return text;
}

}  // namespace kvloupe

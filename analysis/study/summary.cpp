#include "analysis/study/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "analysis/base/text/table.h"
#include "analysis/base/text/text.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/study/study_measures.h"

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
               row.contexts < row.traces ? fmt::format("{} ({} contexts)", row.traces, row.contexts)
                                         : std::to_string(row.traces),
               cell_text(row.value)});
    if (full) table.rows.back().cells.emplace_back(cell_text(row.from_full));
    table.rows.back().cells.emplace_back(cell_text(row.from_first));
  }
  return text + "\n\n" + markdown_table(table);
}
}  // namespace

std::optional<MeanInterval> paired_difference(const ByTrace& values, const ByTrace& others,
                                              bool share, int& pairs) {
  std::vector<double> own, other;
  std::vector<std::string> prompts;
  for (const auto& [prompt, value] : values) {
    const auto pair = others.find(prompt);
    if (pair == others.end()) continue;
    own.push_back(value);
    other.push_back(pair->second);
    prompts.push_back(prompt);
  }
  pairs = static_cast<int>(own.size());
  if (own.empty()) return std::nullopt;
  return paired_interval(own, other, share, contexts_of(prompts));
}

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
          std::vector<std::string> prompts;
          for (const auto& [trace, value] : cell) {
            values.push_back(value);
            prompts.push_back(trace);
          }
          const std::vector<int> contexts = contexts_of(prompts);
          row.contexts = static_cast<int>(context_means(values, contexts).size());
          if (!values.empty()) row.value = mean_interval(values, share, contexts);
          if (budget != kFullCache) {
            row.from_full = paired_difference(cell, full, share, row.full_pairs);
            if (policy != first_policy)
              row.from_first = paired_difference(cell, first, share, row.pairs);
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
  bool shared = false;
  for (auto begin = rows.begin(), end = begin; begin != rows.end(); begin = end) {
    end = std::find_if(begin, rows.end(),
                       [&](const SummaryRow& row) { return row.measure != begin->measure; });
    text += (text.empty() ? "" : "\n") + table_text({begin, end});
    for (auto row = begin; row != end; ++row) {
      if (row->traces > 0) fewest = std::min(fewest, row->contexts);
      shared |= row->contexts < row->traces;
    }
  }
  if (shared) {
    text +=
        "\nQuestions that share a context are not independent: intervals resample contexts, each "
        "with all its questions.\n";
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

#include "analysis/study/paper_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/study/share_interval.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_results.h"

namespace kvloupe {

namespace {
constexpr const char* kAverage = "Avg.";

template <typename T>
void add_new(std::vector<T>& list, const T& one) {
  if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

/// A measure on a set of prompts.
struct Column {
  std::string measure;
  std::string set;  // of prompts
  bool operator==(const Column&) const = default;
};

/// The set of prompts that a source belongs to: of generated ones the length, of a file of JSON
/// lines the file, of a folder the folder; of a trace its folder.
std::string set_of(const std::string& task, std::string name) {
  if (name.starts_with(task + ": ")) {
    name.erase(0, task.size() + 2);
    const std::size_t end = name.find(" tokens");
    const bool generated = end != std::string::npos &&
                           name.find(", sample ") != std::string::npos &&
                           name.find_first_not_of("0123456789") == end;
    if (generated) return name.substr(0, end) + " tokens";
  }
  const std::filesystem::path path = name.substr(0, name.rfind('#'));
  if (path.extension() == ".jsonl") return path.stem().string();
  const std::string folder = path.parent_path().filename().string();
  return folder.empty() || folder == "." || folder == ".." ? std::string("prompts") : folder;
}

/// A results file, as tables need it.
struct Part {
  std::string model, compression;
  std::vector<std::string> blocks, measures, policies, budgets;  // in the file's order
  std::vector<Column> columns;
  /// Values by column, policy and budget, as the items come; the full cache has budget "full".
  std::map<std::tuple<std::size_t, std::string, std::string>, std::vector<double>> values;
  std::vector<std::set<std::string>> prompts;  // [columns]
};

std::string model_name(const std::string& setting) {
  std::filesystem::path path = setting;
  if (!path.has_filename()) path = path.parent_path();
  return setting.empty() ? std::string("Full cache") : path.filename().string();
}

std::string canonical(const std::string& spec) { return parse_policy(spec).text(); }

Part read_part(const std::filesystem::path& path, const PaperTable& table,
               const TableChoice& choice) {
  StudyResults results(path);
  Part part;
  part.model = model_name(results.setting("model"));
  const std::vector<StudyResults::Item> items = results.items();
  part.measures = results.measures();
  std::vector<std::string> wanted = choice.measures;
  if (wanted.empty()) {
    for (const std::string& name : table.measures) {
      if (std::count(part.measures.begin(), part.measures.end(), name) > 0) wanted.push_back(name);
    }
  }
  if (wanted.empty() && !part.measures.empty()) wanted.push_back(part.measures.front());
  for (const StudyResults::Item& item : items) add_new(part.blocks, item.block_word);
  const std::string block =
      !choice.block.empty() || part.blocks.empty() ? choice.block : part.blocks.front();
  // The columns, also of items that wait: what is missing is shown as missing.
  std::map<int, const StudyResults::Item*> by_number;
  for (const std::string& name : wanted) {
    const std::optional<StudyMeasure> known = find_study_measure(name);
    if (std::count(part.measures.begin(), part.measures.end(), name) == 0) continue;
    for (const StudyResults::Item& item : items) {
      if (item.block_word != block || (known && item.task != known->task)) continue;
      const Column column{name, set_of(item.task, item.trace)};
      add_new(part.columns, column);
      part.prompts.resize(part.columns.size());
      const auto at = std::find(part.columns.begin(), part.columns.end(), column);
      const auto place = static_cast<std::size_t>(at - part.columns.begin());
      // The same text is one prompt, in whichever task.
      part.prompts[place].insert(item.trace.starts_with(item.task + ": ")
                                     ? item.trace.substr(item.task.size() + 2)
                                     : item.trace);
      by_number[item.number] = &item;
      part.compression = item.compression;
      if (item.budget == kFullCache) {
        if (item.state != "done" || !known || !known->of_full_cache) continue;
        part.values[{place, kFullCache, kFullCache}].push_back(*known->of_full_cache);
        continue;
      }
      add_new(part.policies, item.policy);
      add_new(part.budgets, item.budget);
    }
  }
  results.each_replay_value([&](int number, int measure, double value) {
    const auto found = by_number.find(number);
    if (found == by_number.end() || !std::isfinite(value)) return;
    const StudyResults::Item& item = *found->second;
    const auto at = std::find(
        part.columns.begin(), part.columns.end(),
        Column{part.measures.at(static_cast<std::size_t>(measure)), set_of(item.task, item.trace)});
    if (at == part.columns.end()) return;
    const auto place = static_cast<std::size_t>(at - part.columns.begin());
    const std::optional<StudyMeasure> known = find_study_measure(at->measure);
    if (item.budget == kFullCache && known && known->of_full_cache) return;  // is there
    part.values[{place, item.policy, item.budget}].push_back(value);
  });
  return part;
}

class Filling {
 public:
  Filling(const PaperTable& table, std::vector<Part> parts) : parts_(std::move(parts)) {
    filled_.table = &table;
    for (const Part& part : parts_) {
      for (const Column& column : part.columns) add_new(columns_, column);
      for (const std::string& budget : part.budgets) add_new(budgets_, budget);
    }
    for (const Column& column : columns_) {
      StudyMeasure measure;
      measure.name = measure.title = column.measure;
      measures_.push_back(find_study_measure(column.measure).value_or(measure));
    }
    for (const PaperPolicy& policy : table.policies) specs_.push_back(canonical(policy.spec));
    averaged_ = columns_.size() > 1 &&
                std::all_of(measures_.begin(), measures_.end(), [&](const StudyMeasure& one) {
                  return one.share == measures_.front().share &&
                         one.better == measures_.front().better &&
                         one.unit == measures_.front().unit;
                });
  }

  FilledTable fill() {
    switch (table().layout) {
      case PaperLayout::tasks_across:
        tasks_across();
        break;
      case PaperLayout::policies_across:
        policies_across();
        break;
      case PaperLayout::settings_across:
        settings_across();
        break;
    }
    add_notes();
    return std::move(filled_);
  }

 private:
  using Row = FilledTable::Row;
  const PaperTable& table() const { return *filled_.table; }

  std::string column_name(std::size_t c) const {
    return measures_[c].title + ", " + columns_[c].set;
  }

  /// A cell of one column; the full cache has policy and budget "full".
  TableCell cell(const Part& part, std::size_t c, const std::string& policy,
                 const std::string& budget, const PaperPolicy* named) {
    TableCell cell = empty_cell(policy, budget, named);
    cell.column = column_name(c);
    cell.measure = columns_[c].measure;
    const auto own = std::find(part.columns.begin(), part.columns.end(), columns_[c]);
    if (own == part.columns.end()) return cell;
    const auto place = static_cast<std::size_t>(own - part.columns.begin());
    cell.wanted = static_cast<int>(part.prompts[place].size());
    const auto found = part.values.find({place, policy, budget});
    if (found != part.values.end()) set(cell, found->second, measures_[c]);
    if (policy == kFullCache && measures_[c].of_full_cache && cell.value) {
      // Known, not measured.
      cell.value->low = cell.value->high = cell.value->mean;
      cell.interval = false;
    }
    return cell;
  }

  TableCell empty_cell(const std::string& policy, const std::string& budget,
                       const PaperPolicy* named) const {
    TableCell cell;
    cell.policy = policy;
    cell.budget = budget;
    if (named != nullptr) {
      cell.label = named->label;
      cell.group = named->group;
    }
    return cell;
  }

  void set(TableCell& cell, const std::vector<double>& values, const StudyMeasure& measure) {
    cell.prompts = static_cast<int>(values.size());
    if (values.empty()) return;
    cell.value = mean_interval(values);
    cell.decimals = -1;
    if (!measure.share) return;
    cell.decimals = table().decimals;
    cell.value = {cell.value->mean * table().scale, cell.value->low * table().scale,
                  cell.value->high * table().scale};
  }

  /// The average of a row's cells, where all of them are there.
  TableCell average(const Part& part, const std::vector<TableCell>& cells, std::string policy,
                    std::string budget, const PaperPolicy* named) const {
    TableCell cell = empty_cell(policy, budget, named);
    cell.column = kAverage;
    std::vector<MeanInterval> means;
    for (const TableCell& one : cells) {
      cell.prompts += one.prompts;
      cell.wanted += one.wanted;
      if (one.value) means.push_back(*one.value);
      cell.decimals = one.decimals;
    }
    if (!averaged_ || means.size() != cells.size()) return cell;
    cell.value = mean_of_means(means);
    std::set<std::string> all;
    std::size_t count = 0;
    for (const std::set<std::string>& prompts : part.prompts) {
      all.insert(prompts.begin(), prompts.end());
      count += prompts.size();
    }
    cell.interval = count == all.size();
    return cell;
  }

  /// Marks the best of cells that stand beside each other; none where all are equal.
  void mark_best(const std::vector<TableCell*>& cells, Better better) {
    if (better == Better::neither) return;
    std::vector<TableCell*> known;
    for (TableCell* one : cells) {
      if (one->value) known.push_back(one);
    }
    if (known.size() < 2) return;
    // As they are shown: what looks equal is.
    const auto shown = [](const TableCell* one) {
      const double unit = std::pow(10.0, one->decimals < 0 ? 12 : one->decimals);
      return std::round(one->value->mean * unit) / unit;
    };
    const auto less = [&](const TableCell* a, const TableCell* b) { return shown(a) < shown(b); };
    const auto [least, most] = std::minmax_element(known.begin(), known.end(), less);
    const double low = shown(*least), high = shown(*most);
    const double best = better == Better::larger ? high : low;
    const double rounding = 1e-12 * std::max(std::abs(low), std::abs(high));
    if (high - low <= rounding) return;
    for (TableCell* one : known) one->best = std::abs(shown(one) - best) <= rounding;
  }

  Better direction(std::size_t c) const { return measures_[c < measures_.size() ? c : 0].better; }

  void head_of_columns(std::vector<TableHead>& upper, std::vector<TableHead>& lower) const {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0 && columns_[c].measure == columns_[c - 1].measure) {
        ++upper.back().span;
      } else {
        upper.push_back({measures_[c].title, 1});
      }
      lower.push_back({columns_[c].set, 1});
    }
    if (!averaged_) return;
    upper.push_back({"", 1});
    lower.push_back({kAverage, 1});
  }

  void tasks_across() {
    const bool one_budget = budgets_.size() == 1;
    filled_.label_columns = one_budget ? 1 : 2;
    std::vector<TableHead> upper{{"", filled_.label_columns}}, lower{{table().policy_head, 1}};
    if (!one_budget) lower.push_back({"Budget", 1});
    head_of_columns(upper, lower);
    filled_.head = {upper, lower};
    for (const Part& part : parts_) {
      const auto row_of = [&](const std::string& policy, const std::string& budget,
                              const PaperPolicy* named) {
        Row row;
        row.model = part.model;
        row.compression = part.compression;
        for (std::size_t c = 0; c < columns_.size(); ++c)
          row.cells.push_back(cell(part, c, policy, budget, named));
        if (averaged_) row.cells.push_back(average(part, row.cells, policy, budget, named));
        return row;
      };
      Row full = row_of(kFullCache, kFullCache, nullptr);
      full.labels = {part.model};
      if (!one_budget) full.labels.emplace_back();
      full.first_of_part = true;
      filled_.rows.push_back(std::move(full));
      const std::size_t first = filled_.rows.size();
      for (std::size_t p = 0; p < specs_.size(); ++p) {
        for (std::size_t b = 0; b < budgets_.size(); ++b) {
          Row row = row_of(specs_[p], budgets_[b], &table().policies[p]);
          row.labels = {b == 0 ? table().policies[p].label : std::string()};
          if (!one_budget) row.labels.push_back(budgets_[b]);
          filled_.rows.push_back(std::move(row));
        }
      }
      for (std::size_t b = 0; b < budgets_.size(); ++b) {
        for (std::size_t c = 0; c < filled_.rows[first].cells.size(); ++c) {
          std::vector<TableCell*> compared;
          for (std::size_t p = 0; p < specs_.size(); ++p)
            compared.push_back(&filled_.rows[first + p * budgets_.size() + b].cells[c]);
          mark_best(compared, direction(c));
        }
      }
    }
  }

  void policies_across() {
    std::vector<TableHead> upper{{table().policy_head, 1}}, lower{{"", 1}};
    for (const PaperPolicy& policy : table().policies) {
      if (upper.size() > 1 && upper.back().text == policy.group) {
        ++upper.back().span;
      } else {
        upper.push_back({policy.group, 1});
      }
      lower.push_back({policy.label, 1});
    }
    filled_.head = {upper, lower};
    if (columns_.empty()) return;
    for (const Part& part : parts_) {
      for (std::size_t b = 0; b < budgets_.size(); ++b) {
        Row row;
        row.model = part.model;
        row.compression = part.compression;
        row.labels = {budgets_[b]};
        row.first_of_part = b == 0;
        for (std::size_t p = 0; p < specs_.size(); ++p) {
          // Over all prompts of the first measure.
          TableCell whole = empty_cell(specs_[p], budgets_[b], &table().policies[p]);
          whole.column = measures_.front().title;
          whole.measure = columns_.front().measure;
          std::vector<double> values;
          for (std::size_t c = 0; c < part.columns.size(); ++c) {
            if (part.columns[c].measure != whole.measure) continue;
            whole.wanted += static_cast<int>(part.prompts[c].size());
            const auto found = part.values.find({c, specs_[p], budgets_[b]});
            if (found == part.values.end()) continue;
            values.insert(values.end(), found->second.begin(), found->second.end());
          }
          set(whole, values, measures_.front());
          row.cells.push_back(std::move(whole));
        }
        std::vector<TableCell*> compared;
        for (TableCell& one : row.cells) compared.push_back(&one);
        mark_best(compared, direction(0));
        filled_.rows.push_back(std::move(row));
      }
    }
  }

  void settings_across() {
    std::vector<TableHead> upper{{"", 1}, {"Full cache", 1}},
        lower{{table().policy_head, 1}, {"", 1}};
    /// What stands across: policies by group, then budget.
    struct Place {
      std::size_t policy, budget;
    };
    std::vector<Place> places;
    std::vector<std::string> groups;
    for (const PaperPolicy& policy : table().policies) add_new(groups, policy.group);
    for (const std::string& group : groups) {
      for (std::size_t b = 0; b < budgets_.size(); ++b) {
        upper.push_back({fmt::format("{} b = {}", group, budgets_[b]), 0});
        for (std::size_t p = 0; p < specs_.size(); ++p) {
          if (table().policies[p].group != group) continue;
          ++upper.back().span;
          lower.push_back({table().policies[p].label, 1});
          places.push_back({p, b});
        }
      }
    }
    filled_.head = {upper, lower};
    for (const Part& part : parts_) {
      const std::size_t first = filled_.rows.size();
      std::vector<std::size_t> own;  // the tasks of this part
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        if (std::count(part.columns.begin(), part.columns.end(), columns_[c]) > 0) own.push_back(c);
      }
      const std::size_t rows = own.size() + (averaged_ && own.size() > 1 ? 1 : 0);
      for (std::size_t r = 0; r < rows; ++r) {
        const bool task = r < own.size();
        const std::size_t c = task ? own[r] : columns_.size();
        Row row;
        row.model = part.model;
        row.compression = part.compression;
        row.first_of_part = r == 0;
        row.labels = {task ? column_name(c) : std::string("Ave.")};
        const auto add = [&](const std::string& policy, const std::string& budget,
                             const PaperPolicy* named) {
          if (task) {
            row.cells.push_back(cell(part, c, policy, budget, named));
            return;
          }
          std::vector<TableCell> above;
          for (std::size_t task_row = 0; task_row < own.size(); ++task_row)
            above.push_back(filled_.rows[first + task_row].cells[row.cells.size()]);
          row.cells.push_back(average(part, above, policy, budget, named));
        };
        add(kFullCache, kFullCache, nullptr);
        for (const Place& place : places)
          add(specs_[place.policy], budgets_[place.budget], &table().policies[place.policy]);
        for (std::size_t i = 0; i < places.size();) {
          std::vector<TableCell*> compared;
          const std::string& group = table().policies[places[i].policy].group;
          const std::size_t budget = places[i].budget;
          for (; i < places.size() && places[i].budget == budget &&
                 table().policies[places[i].policy].group == group;
               ++i) {
            compared.push_back(&row.cells[i + 1]);
          }
          mark_best(compared, direction(c));
        }
        filled_.rows.push_back(std::move(row));
      }
    }
  }

  void add_notes() {
    std::vector<std::string> models, compressions;
    int missing = 0, partial = 0;
    for (const Part& part : parts_) {
      add_new(models, part.model);
      add_new(compressions, part.compression);
    }
    for (const Row& row : filled_.rows) {
      for (const TableCell& one : row.cells) {
        missing += one.value ? 0 : 1;
        partial += one.value && one.prompts < one.wanted ? 1 : 0;
      }
    }
    const bool shares = std::any_of(measures_.begin(), measures_.end(),
                                    [](const StudyMeasure& one) { return one.share; });
    std::string means = "Means over prompts";
    if (shares && table().scale == 100.0) means += ", shares in percent";
    filled_.notes.push_back(means + ", with 95 % intervals in brackets.");
    std::vector<std::string> counts;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::size_t prompts = 0;
      for (const Part& part : parts_) {
        const auto own = std::find(part.columns.begin(), part.columns.end(), columns_[c]);
        if (own == part.columns.end()) continue;
        const auto place = static_cast<std::size_t>(own - part.columns.begin());
        prompts = std::max(prompts, part.prompts[place].size());
      }
      counts.push_back(fmt::format("{} ({})", column_name(c), prompts));
    }
    filled_.notes.push_back(fmt::format("Prompts: {}.", fmt::join(counts, "; ")));
    filled_.notes.push_back(fmt::format("Model: {}. Blocks of {}; compression: {}.",
                                        fmt::join(models, ", "), filled_.block,
                                        fmt::join(compressions, ", ")));
    if (budgets_.size() == 1) filled_.notes.push_back("Budget: " + budgets_.front() + ".");
    const char* const of = table().layout == PaperLayout::settings_across
                               ? "the best of a group at the same budget"
                               : "the best policy at the same budget";
    filled_.notes.push_back(fmt::format("Bold: {}.", of));
    if (missing > 0) filled_.notes.push_back("–: not there.");
    if (partial > 0) filled_.notes.push_back("†: of a part of the prompts.");
    std::vector<std::string> others;
    for (const Part& part : parts_) {
      for (const std::string& policy : part.policies) {
        if (std::count(specs_.begin(), specs_.end(), policy) == 0) add_new(others, policy);
      }
    }
    if (!others.empty())
      filled_.notes.push_back(fmt::format("Also in the results, but not in the paper's table: {}.",
                                          fmt::join(others, ", ")));
  }

 public:
  void set_block(std::string block) { filled_.block = std::move(block); }

 private:
  std::vector<Part> parts_;
  std::vector<Column> columns_;
  std::vector<StudyMeasure> measures_;  // [columns]
  std::vector<std::string> budgets_, specs_;
  bool averaged_ = false;
  FilledTable filled_;
};
}  // namespace

FilledTable fill_paper_table(const PaperTable& table,
                             const std::vector<std::filesystem::path>& results,
                             const TableChoice& choice) {
  std::vector<Part> parts;
  std::vector<std::string> blocks, measures;
  TableChoice settled = choice;
  for (const std::filesystem::path& path : results) {
    parts.push_back(read_part(path, table, settled));
    for (const std::string& block : parts.back().blocks) add_new(blocks, block);
    for (const std::string& measure : parts.back().measures) add_new(measures, measure);
    // All parts show the same block.
    if (settled.block.empty() && !blocks.empty()) settled.block = blocks.front();
  }
  if (std::count(blocks.begin(), blocks.end(), settled.block) == 0) {
    throw UsageError(fmt::format("--block {}: the results have blocks of {}",
                                 in_one_line(settled.block), fmt::join(blocks, ", ")));
  }
  for (const std::string& name : choice.measures) {
    if (std::count(measures.begin(), measures.end(), name) > 0) continue;
    throw UsageError(fmt::format("--measures {}: the results have {}", in_one_line(name),
                                 fmt::join(measures, ", ")));
  }
  Filling filling(table, std::move(parts));
  filling.set_block(settled.block);
  return filling.fill();
}

}  // namespace kvloupe

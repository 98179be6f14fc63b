#include "analysis/study/paper_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "analysis/study/summary.h"

namespace kvloupe {

namespace {
template <typename T>
void add_new(std::vector<T>& list, const T& one) {
  if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

/// The place of the set of prompts that a source belongs to: of generated ones the length, of a
/// file of JSON lines the file, of a folder the folder; of a trace its folder.
std::string place_of_set(const std::string& task, std::string name) {
  if (name.starts_with(task + ": ")) {
    name.erase(0, task.size() + 2);
    const std::size_t end = name.find(" tokens");
    if (end != std::string::npos && name.find(", sample ") != std::string::npos &&
        name.find_first_not_of("0123456789") == end)
      return name.substr(0, end) + " tokens";
  }
  const std::filesystem::path path = name.substr(0, name.rfind('#'));
  return (path.extension() == ".jsonl" ? path.parent_path() / path.stem() : path.parent_path())
      .string();
}

/// A set of prompts of one results file.
struct PromptSet {
  std::size_t part = 0;
  std::set<std::string> content = {};    // of its files, as far as the results tell
  std::vector<std::string> labels = {};  // from the shortest to one that tells all sets apart
  std::size_t shown = 0;                 // of these

  const std::string& label() const { return labels[shown]; }
  /// Whether one label would stand for two sets. Across files, sets with a file in common are one.
  bool clashes(const PromptSet& other) const {
    if (this == &other || label() != other.label()) return false;
    const auto has = [&](const std::string& one) { return other.content.contains(one); };
    return part == other.part || (!content.empty() && !other.content.empty() &&
                                  std::none_of(content.begin(), content.end(), has));
  }
};

/// A measure on a set of prompts.
struct Task {
  StudyMeasure measure;
  std::string set;
  bool operator==(const Task& other) const {
    return measure.name == other.measure.name && set == other.set;
  }
  std::string name() const { return measure.title + ", " + set; }
};

/// The known values of a cell, with the prompt of each.
struct Known {
  std::vector<double> values;
  std::vector<std::string> prompts;

  std::map<std::string, double> by_prompt() const {
    std::map<std::string, double> result;
    for (std::size_t i = 0; i < values.size(); ++i) result.emplace(prompts[i], values[i]);
    return result;
  }
};

/// A results file, as tables need it.
struct Part {
  StudyTable study;
  std::string model, compression;
  std::vector<Task> tasks;
  std::map<std::string, PromptSet> sets;       // by their places
  std::vector<std::string> policies, budgets;  // in the file's order
  std::vector<std::set<std::string>> prompts;  // [tasks]
  /// By task, policy and budget; the full cache has budget "full".
  std::map<std::tuple<std::size_t, std::string, std::string>, Known> values;

  std::size_t place(const Task& task) const {
    return static_cast<std::size_t>(std::find(tasks.begin(), tasks.end(), task) - tasks.begin());
  }
};

Part read_part(const std::filesystem::path& path) {
  Part part;
  part.study = read_study_table(path);
  StudyResults results(path, StudyResults::Checked{});
  part.model = results.model_name();
  if (part.model.empty()) part.model = "Full cache";
  std::set<std::string> seen;
  for (const StudyResults::Item& item : part.study.items) {
    if (!seen.insert(item.trace).second) continue;
    const std::string place = place_of_set(item.task, item.trace);
    PromptSet& set = part.sets[place];
    // "MODEL CONTENT" of a prompt's file; of generated prompts the numbers that make them.
    const std::string identity = results.trace_identity(item.trace);
    const std::size_t blank = identity.find(' ');
    if (blank != std::string::npos && identity.find(' ', blank + 1) == std::string::npos)
      set.content.insert(identity.substr(blank + 1));
  }
  return part;
}

/// Gives each set of prompts the end of its place that tells it from all others, and where places
/// are equal and contents are not, the results file.
void name_sets(std::vector<Part>& parts) {
  std::vector<PromptSet*> sets;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (auto& [place, set] : parts[p].sets) {
      set.part = p;
      std::vector<std::string> names;
      for (const std::filesystem::path& name : std::filesystem::path(place)) {
        if (name != "." && name != ".." && name != "/") names.push_back(name.string());
      }
      for (auto from = names.end(); from != names.begin();)
        set.labels.push_back(fmt::format("{}", fmt::join(--from, names.end(), "/")));
      if (set.labels.empty()) set.labels.emplace_back("prompts");
      if (!place.empty()) set.labels.push_back(place);
      set.labels.push_back(set.labels.back() + " of " + parts[p].study.path.string());
      sets.push_back(&set);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    std::set<std::string> unclear;
    for (const PromptSet* one : sets) {
      for (const PromptSet* other : sets) {
        if (one->clashes(*other)) unclear.insert(one->label());
      }
    }
    for (PromptSet* one : sets) {
      if (!unclear.contains(one->label()) || one->shown + 1 == one->labels.size()) continue;
      ++one->shown;
      changed = true;
    }
  }
}

/// Takes one measure's values, also of items that wait: a missing value is shown as missing.
void take_measure(Part& part, const std::string& name, const std::string& block) {
  const int m = part.study.measure(name);
  if (m < 0) return;
  Task task;
  task.measure.name = task.measure.title = name;
  const std::optional<StudyMeasure> known = find_study_measure(name);
  if (known) task.measure = *known;
  for (std::size_t i = 0; i < part.study.items.size(); ++i) {
    const StudyResults::Item& item = part.study.items[i];
    if (item.block_word != block || (known && item.task != known->task)) continue;
    task.set = part.sets.at(place_of_set(item.task, item.trace)).label();
    add_new(part.tasks, task);
    part.prompts.resize(part.tasks.size());
    // The same text is one prompt, in whichever task.
    const std::string prefix = item.task + ": ";
    part.prompts[part.place(task)].insert(
        item.trace.starts_with(prefix) ? item.trace.substr(prefix.size()) : item.trace);
    part.compression = item.compression;
    double value = part.study.values[static_cast<std::size_t>(m)][i];
    if (item.budget == kFullCache) {
      if (known && known->of_full_cache)
        value = item.state == "done" ? *known->of_full_cache : std::nan("");
    } else {
      add_new(part.policies, item.policy);
      add_new(part.budgets, item.budget);
    }
    if (!std::isfinite(value)) continue;
    Known& known = part.values[{part.place(task), item.policy, item.budget}];
    known.values.push_back(value);
    known.prompts.push_back(item.trace);
  }
}

/// The part of a cell's settings that its row or its column gives.
struct Place {
  const PaperPolicy* policy = nullptr;  // null: the full cache, or the other says it
  std::string budget;
  std::optional<std::size_t> task;  // kAverageOf, kAllPrompts, or one
  std::string upper, label;         // heads of a column; labels of a row
};
constexpr std::size_t kAverageOf = 1'000'000, kAllPrompts = kAverageOf + 1;

class Filling {
 public:
  Filling(const PaperTable& table, std::vector<Part> parts, std::string block)
      : parts_(std::move(parts)), policies_(table.policies) {
    filled_.table = &table;
    filled_.block = std::move(block);
    for (const Part& part : parts_) {
      for (const Task& task : part.tasks) add_new(tasks_, task);
      for (const std::string& budget : part.budgets) add_new(budgets_, budget);
    }
    if (is(PaperLayout::board)) take_policies();
    for (const PaperPolicy& policy : policies_) specs_[&policy] = parse_policy(policy.spec).text();
    one_score_ =
        is(PaperLayout::board) && std::all_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
          return task.measure.name == tasks_.front().measure.name;
        });
    averaged_ = tasks_.size() > 1 && std::all_of(tasks_.begin(), tasks_.end(), [&](const Task& t) {
                  const StudyMeasure &a = t.measure, &b = tasks_.front().measure;
                  return a.share == b.share && a.better == b.better && a.unit == b.unit;
                });
  }

  FilledTable fill() {
    const std::vector<Place> columns = places(false, parts_.front());
    add_heads(columns);
    for (const Part& part : parts_) {
      const std::size_t first = filled_.rows.size();
      for (const Place& row : places(true, part)) {
        FilledTable::Row& filled = filled_.rows.emplace_back();
        filled.model = part.model;
        filled.compression = part.compression;
        filled.first_of_part =
            filled_.rows.size() == first + 1 || (is(PaperLayout::board) && !row.policy);
        if (is(PaperLayout::board)) filled.budget = removed_text(row.upper);
        filled.labels = {row.label};
        if (filled_.upper.front().span > 1) filled.labels.push_back(row.upper);
        for (const Place& column : columns) {
          filled.cells.push_back(cell(part, row.policy != nullptr ? row.policy : column.policy,
                                      row.budget + column.budget,
                                      row.task ? *row.task : column.task.value()));
        }
      }
      mark_best(first);
      if (is(PaperLayout::board)) mark_ties(part, columns, first);
    }
    add_notes();
    return std::move(filled_);
  }

 private:
  /// The policies of the results, those that are chance last.
  void take_policies() {
    for (const bool chance : {false, true}) {
      for (const Part& part : parts_) {
        for (const std::string& policy : part.policies) {
          const PaperPolicy one{policy, (chance ? "chance: " : "") + policy, ""};
          if (has_trait(parse_policy(policy), &PolicyTraits::is_chance) == chance &&
              std::none_of(policies_.begin(), policies_.end(),
                           [&](const PaperPolicy& other) { return other.spec == policy; }))
            policies_.push_back(one);
        }
      }
    }
  }

  /// In each column the cells that are not below the best at their budget beyond chance: the
  /// interval of the paired differences holds 0.
  void mark_ties(const Part& part, const std::vector<Place>& columns, std::size_t first) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::size_t column = columns[c].task.value();
      const auto over = column == kAverageOf ? tasks_of(part) : std::vector{column};
      std::map<std::string, const TableCell*> best;  // by budget
      for (std::size_t r = first; r < filled_.rows.size(); ++r) {
        const TableCell& one = filled_.rows[r].cells[c];
        if (one.best) best.emplace(one.budget, &one);
      }
      for (std::size_t r = first; r < filled_.rows.size(); ++r) {
        TableCell& one = filled_.rows[r].cells[c];
        if (!best.contains(one.budget) || one.best || !one.value) continue;
        std::vector<MeanInterval> apart;
        for (const std::size_t task : over) {
          const auto known = [&](const TableCell& of) {
            const auto found = part.values.find({part.place(tasks_[task]), of.policy, of.budget});
            return found == part.values.end() ? std::map<std::string, double>()
                                              : found->second.by_prompt();
          };
          int pairs = 0;
          const auto difference = paired_difference(known(*best[one.budget]), known(one),
                                                    tasks_[task].measure.share, pairs);
          if (difference) apart.push_back(*difference);
        }
        if (apart.size() != over.size()) continue;
        const MeanInterval all = apart.size() == 1 ? apart.front() : mean_of_means(apart);
        one.ties = all.low <= 0.0 && all.high >= 0.0;
      }
    }
  }

  const PaperTable& table() const { return *filled_.table; }
  bool is(PaperLayout layout) const { return table().layout == layout; }

  /// The columns of the table or, of a part, its rows: its tasks, its settings, or policies at
  /// budgets.
  std::vector<Place> places(bool down, const Part& part) const {
    std::vector<Place> places;
    if (is(PaperLayout::board) && down) {
      for (const std::string& budget : budgets_) {
        places.push_back({nullptr, "", {}, budget, "full"});
        for (const PaperPolicy& policy : policies_)
          places.push_back({&policy, budget, {}, budget, policy.label});
      }
      return places;
    }
    const bool tasks_down = is(PaperLayout::settings_across);
    if (is(PaperLayout::policies_across)) {
      for (const PaperPolicy& policy : policies_) {
        if (!down) places.push_back({&policy, "", kAllPrompts, policy.group, policy.label});
      }
      for (const std::string& budget : budgets_) {
        if (down && !tasks_.empty()) places.push_back({nullptr, budget, {}, "", budget});
      }
    } else if (down == tasks_down) {
      for (const std::size_t t : tasks_of(part)) {
        const Task& task = tasks_[t];
        places.push_back({nullptr, "", t, down || one_score_ ? "" : task.measure.title,
                          down ? task.name() : task.set});
      }
      if (averaged_ && places.size() > 1)
        places.push_back({nullptr, "", kAverageOf, "", down ? "Ave." : "Avg."});
    } else {
      places.push_back({nullptr, "", {}, down ? "" : "Full cache", down ? part.model : ""});
      std::vector<std::string> groups;
      const auto group_of = [&](const PaperPolicy& one) { return down ? one.label : one.group; };
      for (const PaperPolicy& policy : policies_) add_new(groups, group_of(policy));
      for (const std::string& group : groups) {
        for (const std::string& budget : budgets_) {
          for (const PaperPolicy& policy : policies_) {
            if (group_of(policy) != group) continue;
            const bool named = !down || budget == budgets_.front();
            places.push_back({&policy,
                              budget,
                              {},
                              down ? budget : fmt::format("{} b = {}", group, budget),
                              named ? policy.label : ""});
          }
        }
      }
    }
    return places;
  }

  /// The tasks that an average is over: the table's, or where they stand down, those of the part.
  std::vector<std::size_t> tasks_of(const Part& part) const {
    std::vector<std::size_t> own;
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      if (is(PaperLayout::tasks_across) || is(PaperLayout::board) ||
          part.place(tasks_[t]) < part.tasks.size())
        own.push_back(t);
    }
    return own;
  }

  void add_heads(const std::vector<Place>& columns) {
    const bool budgets = is(PaperLayout::tasks_across) && budgets_.size() != 1;
    filled_.upper = {{"", budgets ? 2U : 1U}};
    filled_.columns = {table().policy_head};
    if (budgets) filled_.columns.emplace_back("Budget");
    if (is(PaperLayout::policies_across)) std::swap(filled_.upper[0].text, filled_.columns[0].name);
    for (const Place& column : columns) {
      if (filled_.upper.size() > 1 && filled_.upper.back().text == column.upper) {
        ++filled_.upper.back().span;
      } else {
        filled_.upper.push_back({column.upper});
      }
      filled_.columns.emplace_back(">" + column.label);
    }
  }

  /// One number. `policy`: null for the full cache, whose cells are the same at all budgets.
  TableCell cell(const Part& part, const PaperPolicy* policy, const std::string& budget,
                 std::size_t task) const {
    TableCell cell;
    cell.policy = cell.budget = kFullCache;
    if (policy != nullptr) {
      cell.policy = specs_.at(policy);
      cell.label = policy->label;
      cell.group = policy->group;
      cell.budget = budget;
    }
    if (task == kAverageOf) {
      average(part, policy, budget, cell);
      return cell;
    }
    // All prompts are those of the first measure.
    const bool all = task == kAllPrompts;
    const Task& shown = tasks_[all ? 0 : task];
    const StudyMeasure& measure = shown.measure;
    cell.column = all ? measure.title : shown.name();
    cell.measure = measure.name;
    cell.better = measure.better;
    Known known;
    for (std::size_t t = 0; t < part.tasks.size(); ++t) {
      if (all ? part.tasks[t].measure.name != measure.name : part.tasks[t] != shown) continue;
      cell.wanted += static_cast<int>(part.prompts[t].size());
      const auto found = part.values.find({t, cell.policy, cell.budget});
      if (found == part.values.end()) continue;
      const auto append = [](auto& to, const auto& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(known.values, found->second.values);
      append(known.prompts, found->second.prompts);
    }
    cell.prompts = static_cast<int>(known.values.size());
    if (known.values.empty()) return cell;
    const MeanInterval mean =
        mean_interval(known.values, measure.share, contexts_of(known.prompts));
    const double scale = measure.share && table().percent ? 100.0 : 1.0;
    cell.value = {mean.mean * scale, mean.low * scale, mean.high * scale};
    cell.interval = std::isfinite(mean.low);
    cell.decimals = !measure.share ? -1 : table().percent ? 1 : 3;
    if (policy == nullptr && measure.of_full_cache) {  // known, not measured
      cell.value->low = cell.value->high = cell.value->mean;
      cell.interval = false;
    }
    return cell;
  }

  /// The average over tasks, where all of them are there.
  void average(const Part& part, const PaperPolicy* policy, const std::string& budget,
               TableCell& average) const {
    average.column = "Avg.";
    average.better = tasks_.front().measure.better;
    std::vector<MeanInterval> means;
    const std::vector<std::size_t> over = tasks_of(part);
    for (const std::size_t task : over) {
      const TableCell one = cell(part, policy, budget, task);
      average.prompts += one.prompts;
      average.wanted += one.wanted;
      average.decimals = one.decimals;
      if (one.value) means.push_back(*one.value);
    }
    if (!averaged_ || means.size() != over.size()) return;
    average.value = mean_of_means(means);
    std::set<std::string> all;
    std::size_t count = 0;
    for (const std::set<std::string>& prompts : part.prompts) {
      all.insert(prompts.begin(), prompts.end());
      count += prompts.size();
    }
    average.interval = count == all.size();  // of independent means
  }

  /// Marks the best of the cells of a part that are compared with each other, by the digits shown:
  /// what looks equal is. None is marked where all are equal.
  void mark_best(std::size_t first_row) {
    const bool by_group = is(PaperLayout::settings_across);
    std::map<std::tuple<std::string, std::string, std::string>, std::vector<TableCell*>> compared;
    for (std::size_t r = first_row; r < filled_.rows.size(); ++r) {
      for (TableCell& one : filled_.rows[r].cells) {
        if (one.policy != kFullCache && one.value)
          compared[{one.budget, one.column, by_group ? one.group : ""}].push_back(&one);
      }
    }
    const auto shown = [](const TableCell* one) {
      const double unit = std::pow(10.0, one->decimals < 0 ? 12 : one->decimals);
      return std::round(one->value->mean * unit) / unit;
    };
    for (auto& [of, cells] : compared) {
      const Better better = cells.front()->better;
      const auto [least, most] =
          std::minmax_element(cells.begin(), cells.end(),
                              [&](const auto* a, const auto* b) { return shown(a) < shown(b); });
      const double low = shown(*least), high = shown(*most);
      const double rounding = 1e-12 * std::max(std::abs(low), std::abs(high));
      if (better == Better::neither || high - low <= rounding) continue;
      const double best = better == Better::larger ? high : low;
      for (TableCell* one : cells) one->best = std::abs(shown(one) - best) <= rounding;
    }
  }

  void add_notes() {
    std::vector<std::string> models, compressions, counts, others, specs;
    for (const auto& [policy, spec] : specs_) specs.push_back(spec);
    for (const Part& part : parts_) {
      add_new(models, part.model);
      add_new(compressions, part.compression);
      for (const std::string& policy : part.policies) {
        if (std::count(specs.begin(), specs.end(), policy) == 0) add_new(others, policy);
      }
    }
    bool missing = false, partial = false, shares = false, shared = false;
    for (const Part& part : parts_) {
      for (const auto& [cell, known] : part.values)
        shared |=
            context_means(known.values, contexts_of(known.prompts)).size() < known.values.size();
    }
    for (const FilledTable::Row& row : filled_.rows) {
      for (const TableCell& one : row.cells) {
        missing = missing || !one.value;
        partial = partial || (one.value && one.prompts < one.wanted);
      }
    }
    for (const Task& task : tasks_) {
      shares = shares || task.measure.share;
      std::size_t prompts = 0;
      for (const Part& part : parts_) {
        if (const std::size_t own = part.place(task); own < part.tasks.size())
          prompts = std::max(prompts, part.prompts[own].size());
      }
      counts.push_back(fmt::format("{} ({})", one_score_ ? task.set : task.name(), prompts));
    }
    std::vector<std::string>& notes = filled_.notes;
    notes = {fmt::format("Means over prompts{}, with 95 % intervals in brackets.",
                         shares && table().percent ? ", shares in percent" : ""),
             fmt::format("Prompts: {}.", fmt::join(counts, "; ")),
             fmt::format("Model: {}. Blocks of {}; compression: {}.", fmt::join(models, ", "),
                         filled_.block, fmt::join(compressions, ", "))};
    if (is(PaperLayout::board)) {
      std::vector<std::string> scores;
      for (const Task& task : tasks_) add_new(scores, task.measure.name);
      notes.insert(notes.begin(), fmt::format("Score: {}.", fmt::join(scores, ", ")));
      notes.emplace_back(
          "Removed: the share of the prompt's entries that leave the cache. ≈: not below the best "
          "beyond chance (paired 95 % interval).");
    } else if (budgets_.size() == 1) {
      notes.push_back("Budget: " + budgets_.front() + ".");
    }
    if (shared) notes.emplace_back("Intervals resample the contexts that questions share.");
    notes.push_back(fmt::format("Bold: the best {} at the same budget.",
                                is(PaperLayout::settings_across) ? "of a group" : "policy"));
    if (missing) notes.emplace_back("–: not there.");
    if (partial) notes.emplace_back("†: of a part of the prompts.");
    if (!others.empty()) {
      notes.push_back(fmt::format("Also in the results, but not in the paper's table: {}.",
                                  fmt::join(others, ", ")));
    }
  }

  std::vector<Part> parts_;
  std::vector<PaperPolicy> policies_;
  std::vector<Task> tasks_;
  std::vector<std::string> budgets_;
  std::map<const PaperPolicy*, std::string> specs_;  // canonical
  bool averaged_ = false;
  bool one_score_ = false;  // of a board: columns need no more than the tasks' names
  FilledTable filled_;
};
}  // namespace

FilledTable fill_paper_table(const PaperTable& table,
                             const std::vector<std::filesystem::path>& results,
                             const TableChoice& choice) {
  std::vector<Part> parts;
  std::vector<std::string> blocks, measures;
  for (const std::filesystem::path& path : results) {
    parts.push_back(read_part(path));
    for (const auto& item : parts.back().study.items) add_new(blocks, item.block_word);
    for (const std::string& measure : parts.back().study.measures) add_new(measures, measure);
  }
  name_sets(parts);
  // All parts show the same block.
  const std::string block = choice.block.empty() && !blocks.empty() ? blocks.front() : choice.block;
  const auto require = [](const std::vector<std::string>& there, const std::string& wanted,
                          const char* option, const char* what) {
    if (std::count(there.begin(), there.end(), wanted) > 0) return;
    throw UsageError(fmt::format("--{} {}: the results have {}{}", option, in_one_line(wanted),
                                 what, fmt::join(there, ", ")));
  };
  require(blocks, block, "block", "blocks of ");
  for (const std::string& name : choice.measures) require(measures, name, "measures", "");
  for (Part& part : parts) {
    std::vector<std::string> wanted = choice.measures;
    for (const std::string& name : table.measures) {
      const int measure = part.study.measure(name);
      if (!choice.measures.empty() || measure < 0) continue;
      // A board has one score of answers, and only scores that the study has.
      if (table.layout == PaperLayout::board &&
          ((name == "answer_found" && !wanted.empty()) || blocks_of(part.study, measure).empty()))
        continue;
      wanted.push_back(name);
    }
    if (wanted.empty() && !part.study.measures.empty())
      wanted.push_back(part.study.measures.front());
    for (const std::string& name : wanted) take_measure(part, name, block);
  }
  return Filling(table, std::move(parts), block).fill();
}

}  // namespace kvloupe

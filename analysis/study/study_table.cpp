#include "analysis/study/study_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/replay/measure/foretold_answers.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/study/study_measures.h"

namespace kvloupe {

namespace {

/// A list of texts without repetitions, and the place of each.
class Places {
 public:
  explicit Places(std::vector<std::string>& texts) : texts_(texts) {}
  /// The place of a text, which is added where it is new.
  std::size_t of(const std::string& text) {
    const auto [found, is_new] = places_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return found->second;
  }

 private:
  std::vector<std::string>& texts_;
  std::unordered_map<std::string, std::size_t> places_;
};

void count_compared(StudyTable& table) {
  int first = 0;
  while (first < static_cast<int>(table.measures.size()) && blocks_of(table, first).empty())
    ++first;
  if (first == static_cast<int>(table.measures.size())) return;
  const MeasureTable values = measure_table(table, first, blocks_of(table, first).front());
  const auto known = [](double value) { return std::isfinite(value); };
  std::vector<std::size_t> policies;
  for (std::size_t p = 0; p < values.policies.size(); ++p) {
    const auto begin = values.values.begin() + static_cast<std::ptrdiff_t>(values.at(p, 0, 0));
    const auto size = static_cast<std::ptrdiff_t>(values.budgets.size() * values.prompts.size());
    if (std::any_of(begin, begin + size, known)) policies.push_back(p);
  }
  table.compared_policies = static_cast<int>(policies.size());
  for (std::size_t b = 0; b < values.budgets.size(); ++b) {
    int complete = 0;
    for (std::size_t prompt = 0; prompt < values.prompts.size(); ++prompt) {
      complete += std::all_of(policies.begin(), policies.end(),
                              [&](std::size_t p) { return known(values.value(p, b, prompt)); });
    }
    table.compared_prompts = std::max(table.compared_prompts, complete);
  }
}
}  // namespace

long StudyTable::done() const {
  return std::count_if(items.begin(), items.end(),
                       [](const StudyResults::Item& item) { return item.state == "done"; });
}

int StudyTable::measure(std::string_view name) const {
  const auto found = std::find(measures.begin(), measures.end(), name);
  return found == measures.end() ? -1 : static_cast<int>(found - measures.begin());
}

StudyTable read_study_table(const std::filesystem::path& path) {
  StudyResults results(path);
  StudyTable table;
  table.path = path;
  table.items = results.items();
  table.measures = results.measures();
  table.values.assign(table.measures.size(), std::vector<double>(table.items.size(), kUnknown));
  table.has_value.assign(table.measures.size(), std::vector<char>(table.items.size(), 0));
  results.each_replay_value([&](int item, int measure, double value) {
    // StudyResults has checked the numbers; the study may have gone on since the items were read.
    const auto m = static_cast<std::size_t>(measure);
    const auto i = static_cast<std::size_t>(item);
    if (m >= table.measures.size() || i >= table.items.size()) return;
    table.values[m][i] = value;
    table.has_value[m][i] = 1;
  });
  for (std::size_t m = 0; m < table.measures.size(); ++m) {
    // An item has values of heads for a measure or not as its study keeps them: one tells.
    const auto item = std::find(table.has_value[m].begin(), table.has_value[m].end(), 1);
    bool found = false;
    if (ranks_heads(table.measures[m]) && item != table.has_value[m].end()) {
      results.each_head_value(static_cast<int>(item - table.has_value[m].begin()),
                              static_cast<int>(m), [&](int, int, double) { found = true; });
    }
    table.by_head.push_back(found ? 1 : 0);
  }
  count_compared(table);
  return table;
}

void require_one_model(const std::filesystem::path& path) {
  StudyResults(path, StudyResults::Checked{}).require_one_model();
}

std::vector<double> MeasureTable::row(std::size_t policy, std::size_t budget) const {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(at(policy, budget, 0));
  return {first, first + static_cast<std::ptrdiff_t>(prompts.size())};
}

std::vector<std::string> blocks_of(const StudyTable& table, int measure) {
  std::vector<std::string> blocks;
  Places places(blocks);
  const std::vector<char>& has = table.has_value.at(static_cast<std::size_t>(measure));
  for (std::size_t i = 0; i < table.items.size(); ++i) {
    if (has[i] != 0) places.of(table.items[i].block_word);
  }
  return blocks;
}

std::string block_of(const StudyTable& table, int measure, const std::string& asked) {
  const std::vector<std::string> blocks = blocks_of(table, measure);
  if (!asked.empty() && std::find(blocks.begin(), blocks.end(), asked) == blocks.end()) {
    throw UsageError(fmt::format("the study has no block {}; it has {}", in_one_line(asked),
                                 fmt::join(blocks, ", ")));
  }
  return asked.empty() ? blocks.front() : asked;
}

long prompts_of_task(const StudyTable& table, std::string_view task, const std::string& block) {
  std::set<std::string> prompts;
  for (const StudyResults::Item& item : table.items) {
    if (item.task == task && item.block_word == block) prompts.insert(context_of(item.trace));
  }
  return std::ssize(prompts);
}

MeasureTable measure_table(const StudyTable& table, int measure, const std::string& block) {
  const auto m = static_cast<std::size_t>(measure);
  MeasureTable result;
  result.measure = table.measures.at(m);
  result.block = block;
  struct Member {
    std::size_t item, prompt, policy = 0, budget = 0;
  };
  std::vector<Member> members;
  Places prompts(result.prompts), policies(result.policies), budgets(result.budgets);
  for (std::size_t i = 0; i < table.items.size(); ++i) {
    const StudyResults::Item& item = table.items[i];
    if (table.has_value[m][i] == 0 || item.block_word != block) continue;
    Member& member = members.emplace_back(Member{i, prompts.of(item.trace)});
    if (item.budget == kFullCache) continue;
    member.policy = policies.of(item.policy);
    member.budget = budgets.of(item.budget);
  }
  const std::size_t count = result.prompts.size();
  result.values.assign(result.policies.size() * result.budgets.size() * count, kUnknown);
  result.items.assign(result.values.size(), -1);
  result.entries.assign(result.budgets.size() * count, kUnknown);
  result.full.assign(count, kUnknown);
  for (const auto& [i, prompt, policy, budget] : members) {
    const StudyResults::Item& item = table.items[i];
    if (item.budget == kFullCache) {
      result.full[prompt] = table.values[m][i];
      continue;
    }
    const std::size_t place = result.at(policy, budget, prompt);
    result.values[place] = table.values[m][i];
    result.items[place] = item.number;
    if (item.entries > 0) result.entries[budget * count + prompt] = item.entries;
  }
  return result;
}

HeadMeasureTable head_table(const StudyTable& table, const MeasureTable& of, std::size_t policy,
                            std::size_t budget) {
  StudyResults results(table.path, StudyResults::Checked{});
  const int measure = table.measure(of.measure);
  struct Row {
    std::vector<double> values;
    std::vector<char> has;
  };
  std::map<HeadMeasureTable::Head, Row> rows;
  for (std::size_t prompt = 0; prompt < of.prompts.size(); ++prompt) {
    const int item = of.items[of.at(policy, budget, prompt)];
    if (item < 0) continue;
    results.each_head_value(item, measure, [&](int layer, int head, double value) {
      Row& row = rows[{layer, head}];
      row.values.resize(of.prompts.size(), kUnknown);
      row.has.resize(of.prompts.size(), 0);
      row.values[prompt] = value;
      row.has[prompt] = 1;
    });
  }
  HeadMeasureTable result;
  for (const auto& [head, row] : rows) {
    result.heads.push_back(head);
    result.values.insert(result.values.end(), row.values.begin(), row.values.end());
    result.has.insert(result.has.end(), row.has.begin(), row.has.end());
  }
  return result;
}

namespace {
// Before all others: the answers, then the number of replays that foretold answers best.
constexpr std::string_view kFirst[] = {"answer_found", "needle_found", "answer_residual_change"};
constexpr std::size_t kAnswers = 2;

bool is_finite(double value) { return std::isfinite(value); }

/// False for a measure of the full cache or of the trace alone.
bool depends_on_policy(const std::string& measure) {
  const Measure* known = find_measure(measure);
  return known == nullptr ||
         (known->family->scope != MeasureScope::trace && !known->family->of_full_cache &&
          known->family->group != MeasureGroup::full_cache);
}

/// The smaller, the earlier.
std::size_t rank_of(const StudyTable& study, std::size_t measure) {
  const std::string& name = study.measures[measure];
  constexpr std::size_t kLast = 1'000'000;
  if (!compares_policies(study, measure)) return kLast;
  std::vector<std::string_view> order(std::begin(kFirst), std::end(kFirst));
  for (const ForetoldAnswers& one : foretold_answers()) order.push_back(one.measure);
  const auto found = std::find(order.begin(), order.end(), name);
  if (found != order.end()) return static_cast<std::size_t>(found - order.begin());
  return kLast - (find_study_measure(name)->share ? 2 : 1);
}
}  // namespace

bool compares_policies(const StudyTable& study, std::size_t measure) {
  const std::string& name = study.measures[measure];
  const auto known = find_study_measure(name);
  if (!known || known->better == Better::neither || !depends_on_policy(name)) return false;
  const std::vector<std::string> blocks = blocks_of(study, static_cast<int>(measure));
  if (blocks.empty()) return false;
  const MeasureTable table = measure_table(study, static_cast<int>(measure), blocks.front());
  const auto of_policy = static_cast<std::ptrdiff_t>(table.budgets.size() * table.prompts.size());
  for (auto first = table.values.begin(); first != table.values.end(); first += of_policy) {
    if (std::none_of(first, first + of_policy, is_finite)) return false;
  }
  return !table.policies.empty();
}

std::vector<std::string> measures_in_order(const StudyTable& study) {
  std::vector<std::pair<std::size_t, std::size_t>> places;  // rank, place in the file
  for (std::size_t m = 0; m < study.measures.size(); ++m) {
    const std::vector<double>& values = study.values[m];
    if (std::any_of(values.begin(), values.end(), is_finite))
      places.emplace_back(rank_of(study, m), m);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::string> names;
  for (const auto& [rank, place] : places) names.push_back(study.measures[place]);
  return names;
}

FirstMeasure first_measure(const StudyTable& study) {
  const std::vector<std::string> names = measures_in_order(study);
  if (names.empty()) return {};
  const std::string& name = names.front();
  if (std::find(kFirst, kFirst + kAnswers, name) != kFirst + kAnswers)
    return {name, "It counts the model's own answers with each policy in the cache."};
  const std::string foretold = foretold_text(name);
  return {name,
          fmt::format("The study does not have the model's answers under every policy{}. {}",
                      name == kFirst[kAnswers] ? "" : ", nor answer_residual_change",
                      foretold.empty() ? "Whether this measure foretells answers is not known."
                                       : foretold)};
}

namespace {
/// The item's ComparisonTerms in words; empty columns for a policy that this program does not have.
std::string terms_of(const StudyResults::Item& item) {
  try {
    const Compression compression = item.compression == compression_name(Compression::context_only)
                                        ? Compression::context_only
                                        : Compression::regular;
    const ComparisonTerms terms =
        comparison_terms(parse_policy(item.policy), compression, item.at_once);
    return fmt::format("{},{},{}", term(terms.question), term(terms.prompt), term(terms.budget));
  } catch (const UsageError&) {
    return ",,";
  }
}

std::string number_or_empty(int number) { return number >= 0 ? std::to_string(number) : ""; }
}  // namespace

void write_study_csv(StudyResults& results, const std::string& target) {
  const std::vector<StudyResults::Item> items = results.items();
  const std::vector<std::string> measures = results.measures();
  OutputFile out(target);
  out.write(
      "trace,policy,budget,entries,block,tokens,compression,measure,layer,head,step,value,"
      "question,prompt_compressed,budget_counts\n");
  int written = -1;
  std::string begin, end;
  results.each_value([&](int number, const StudyValue& one) {
    if (number != written) {
      const StudyResults::Item& item = items.at(static_cast<std::size_t>(number));
      begin = fmt::format("{},{},{},{},{},{},{}", doubled_quotes(item.trace),
                          doubled_quotes(item.policy), doubled_quotes(item.budget), item.entries,
                          item.block_word, item.block, item.compression);
      end = terms_of(item);
      written = number;
    }
    out.write(fmt::format(
        "{},{},{},{},{},{},{}\n", begin, measures.at(static_cast<std::size_t>(one.measure)),
        number_or_empty(one.layer), number_or_empty(one.head), number_or_empty(one.step),
        std::isfinite(one.value) ? fmt::format("{}", one.value) : "", end));
  });
  out.finish();
}

}  // namespace kvloupe

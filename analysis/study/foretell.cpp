#include "analysis/study/foretell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "analysis/error.h"
#include "analysis/markdown.h"
#include "analysis/metric/rank_correlation.h"
#include "analysis/numeric/splitmix.h"
#include "analysis/one_line.h"
#include "analysis/study/intervals.h"
#include "analysis/study/study_measures.h"
#include "analysis/unknown.h"

namespace kvloupe {

namespace {

/// Measure and outcome of the prompts that have both, [settings, prompts]; more is better in both.
struct Joined {
  std::size_t settings = 0, prompts = 0, failed = 0;
  std::vector<double> measure, outcome;
  std::size_t at(std::size_t setting, std::size_t prompt) const {
    return setting * prompts + prompt;
  }
};

/// The share of pairs that agree, as counts.
struct Pairs {
  double agree = 0.0, all = 0.0;
  double share() const { return all > 0.0 ? agree / all : kUnknown; }
};

/// Adds all pairs of some runs. Two values that are equal count half.
void add_pairs(std::vector<std::pair<double, double>> runs, Pairs& pairs) {
  // By measure; of each run the runs below it with a worse outcome agree. Outcomes may be any
  // numbers, so runs are counted by outcome.
  std::sort(runs.begin(), runs.end());
  std::map<double, double> below;  // outcome -> runs with a smaller measure
  std::map<double, double> all;
  for (const auto& run : runs) all[run.second] += 1.0;
  const auto total = static_cast<double>(runs.size());
  double same = 0.0;
  for (const auto& [outcome, count] : all) same += count * (count - 1.0) / 2.0;
  pairs.all += total * (total - 1.0) / 2.0 - same;
  for (std::size_t begin = 0; begin < runs.size();) {
    std::size_t end = begin;
    std::map<double, double> tied;
    for (; end < runs.size() && runs[end].first == runs[begin].first; ++end) {
      tied[runs[end].second] += 1.0;
    }
    for (const auto& [outcome, count] : tied) {
      for (const auto& [other, number] : below) {
        if (other < outcome) pairs.agree += count * number;
      }
      for (const auto& [other, number] : tied) {
        if (other < outcome) pairs.agree += 0.5 * count * number;
      }
    }
    for (const auto& [outcome, count] : tied) below[outcome] += count;
    begin = end;
  }
}

struct Numbers {
  double settings, pairs, pairs_of_prompt, pairs_of_setting;
};

/// The numbers over these prompts; a prompt may occur several times.
Numbers numbers_of(const Joined& joined, const std::vector<std::size_t>& drawn) {
  std::vector<double> measures, outcomes;
  Pairs all, of_prompt, of_setting;
  std::vector<std::pair<double, double>> runs;
  for (std::size_t setting = 0; setting < joined.settings; ++setting) {
    double measure = 0.0, outcome = 0.0;
    std::vector<std::pair<double, double>> own;
    for (const std::size_t prompt : drawn) {
      const std::size_t at = joined.at(setting, prompt);
      measure += joined.measure[at];
      outcome += joined.outcome[at];
      own.emplace_back(joined.measure[at], joined.outcome[at]);
    }
    measures.push_back(measure);
    outcomes.push_back(outcome);
    runs.insert(runs.end(), own.begin(), own.end());
    add_pairs(std::move(own), of_setting);
  }
  add_pairs(std::move(runs), all);
  for (const std::size_t prompt : drawn) {
    std::vector<std::pair<double, double>> own;
    for (std::size_t setting = 0; setting < joined.settings; ++setting) {
      own.emplace_back(joined.measure[joined.at(setting, prompt)],
                       joined.outcome[joined.at(setting, prompt)]);
    }
    add_pairs(std::move(own), of_prompt);
  }
  return {spearman(measures, outcomes), all.share(), of_prompt.share(), of_setting.share()};
}

Foretold interval(double value, std::vector<double> drawn) {
  std::erase_if(drawn, [](double one) { return std::isnan(one); });
  if (std::isnan(value) || drawn.empty()) return {kUnknown, kUnknown, kUnknown};
  std::sort(drawn.begin(), drawn.end());
  const std::size_t tail = drawn.size() * 25 / 1000;
  return {value, drawn[tail], drawn[drawn.size() - 1 - tail]};
}

Foretelling foretelling_of(const Joined& joined) {
  std::vector<std::size_t> prompts(joined.prompts);
  std::iota(prompts.begin(), prompts.end(), std::size_t{0});
  const Numbers of_all = numbers_of(joined, prompts);
  std::vector<double> settings, pairs, of_prompt, of_setting;
  std::uint64_t state = splitmix(kBootstrapSeed);
  for (int i = 0; i < kForetellResamples; ++i) {
    for (std::size_t& prompt : prompts) {
      state += kSplitmixStep;
      prompt = ((splitmix_output(state) >> 32U) * joined.prompts) >> 32U;
    }
    const Numbers of_drawn = numbers_of(joined, prompts);
    settings.push_back(of_drawn.settings);
    pairs.push_back(of_drawn.pairs);
    of_prompt.push_back(of_drawn.pairs_of_prompt);
    of_setting.push_back(of_drawn.pairs_of_setting);
  }
  Foretelling result;
  result.prompts = static_cast<int>(joined.prompts);
  result.failed_prompts = static_cast<int>(joined.failed);
  result.settings_count = static_cast<int>(joined.settings);
  result.settings = interval(of_all.settings, std::move(settings));
  result.pairs = interval(of_all.pairs, std::move(pairs));
  result.pairs_of_prompt = interval(of_all.pairs_of_prompt, std::move(of_prompt));
  result.pairs_of_setting = interval(of_all.pairs_of_setting, std::move(of_setting));
  return result;
}

double oriented(double value, Better better) { return better == Better::smaller ? -value : value; }

/// Prompts and settings of which both are known; by key and by name.
Joined join(const MeasureTable& measure, Better measure_better, const MeasureTable& outcome,
            const StudyMeasure& result) {
  std::map<std::string, std::size_t> outcomes;
  for (std::size_t i = 0; i < outcome.prompts.size(); ++i) {
    outcomes[prompt_key(outcome.prompts[i])] = i;
  }
  const auto index = [](const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  struct Setting {
    std::size_t policy, budget, other_policy, other_budget;
  };
  std::vector<Setting> settings;
  for (std::size_t p = 0; p < measure.policies.size(); ++p) {
    for (std::size_t b = 0; b < measure.budgets.size(); ++b) {
      const Setting one{p, b, index(outcome.policies, measure.policies[p]),
                        index(outcome.budgets, measure.budgets[b])};
      if (one.other_policy == outcome.policies.size() ||
          one.other_budget == outcome.budgets.size()) {
        continue;
      }
      settings.push_back(one);
    }
  }
  Joined joined;
  joined.settings = settings.size();
  std::vector<std::vector<double>> measures(settings.size()), results(settings.size());
  for (std::size_t prompt = 0; prompt < measure.prompts.size(); ++prompt) {
    const auto found = outcomes.find(prompt_key(measure.prompts[prompt]));
    if (found == outcomes.end()) continue;
    std::vector<std::pair<double, double>> values;
    for (const Setting& one : settings) {
      values.emplace_back(oriented(measure.value(one.policy, one.budget, prompt), measure_better),
                          oriented(outcome.value(one.other_policy, one.other_budget, found->second),
                                   result.better));
    }
    if (std::any_of(values.begin(), values.end(), [](const auto& value) {
          return !std::isfinite(value.first) || !std::isfinite(value.second);
        })) {
      continue;
    }
    if (result.share && outcome.full[found->second] == 0.0) {
      ++joined.failed;
      continue;
    }
    ++joined.prompts;
    for (std::size_t setting = 0; setting < settings.size(); ++setting) {
      measures[setting].push_back(values[setting].first);
      results[setting].push_back(values[setting].second);
    }
  }
  for (std::size_t setting = 0; setting < settings.size(); ++setting) {
    joined.measure.insert(joined.measure.end(), measures[setting].begin(), measures[setting].end());
    joined.outcome.insert(joined.outcome.end(), results[setting].begin(), results[setting].end());
  }
  return joined;
}
}  // namespace

std::string prompt_key(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) {
    name.remove_prefix(slash + 1);
  }
  if (const std::size_t space = name.rfind(' '); space != std::string_view::npos) {
    name.remove_prefix(space + 1);
  }
  std::string line;
  if (const std::size_t hash = name.rfind('#'); hash != std::string_view::npos) {
    line = name.substr(hash + 1);
    line = "-" + std::string(line.size() < 5 ? 5 - line.size() : 0, '0') + line;
    name = name.substr(0, hash);
  }
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0) {
    name = name.substr(0, dot);
  }
  return std::string(name) + line;
}

std::vector<Foretelling> foretell(const StudyTable& table, std::string_view outcome) {
  const std::optional<StudyMeasure> result = find_study_measure(outcome);
  const int column = table.measure(outcome);
  if (!result || column < 0 || result->task == kReplayTask) {
    std::string names;
    for (const std::string& name : table.measures) {
      const auto known = find_study_measure(name);
      if (known && known->task != kReplayTask) names += (names.empty() ? "" : ", ") + name;
    }
    throw UsageError(
        "foretell '" + in_one_line(std::string(outcome)) + "': " +
        (names.empty() ? "the results have no runs in the model; give the study a model and tasks"
                       : "give a measure of the runs in the model: " + names));
  }
  const std::vector<std::string> outcome_blocks = blocks_of(table, column);
  std::vector<Foretelling> rows;
  for (std::size_t m = 0; m < table.measures.size(); ++m) {
    const auto known = find_study_measure(table.measures[m]);
    if (!known || known->task != kReplayTask) continue;
    const std::vector<std::string> blocks = blocks_of(table, static_cast<int>(m));
    if (blocks.empty() || outcome_blocks.empty()) continue;
    const Joined joined =
        join(measure_table(table, static_cast<int>(m), blocks.front()), known->better,
             measure_table(table, column, outcome_blocks.front()), *result);
    if (joined.prompts == 0 || joined.settings == 0) continue;
    Foretelling row = foretelling_of(joined);
    row.measure = table.measures[m];
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    throw UsageError(
        "foretell: the results have no prompt with both replays and runs in the model; a trace "
        "NAME.h5 belongs to the prompt NAME.txt, and NAME-00012.h5 to line 12 of NAME.jsonl");
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Foretelling& a, const Foretelling& b) {
    const bool known = !std::isnan(a.settings.value), other = !std::isnan(b.settings.value);
    return known != other ? known : known && a.settings.value > b.settings.value;
  });
  return rows;
}

std::string foretell_markdown(const std::vector<Foretelling>& rows, std::string_view outcome) {
  std::string text = fmt::format(
      "{} prompts{}, {} settings; outcome: {}\n\n"
      "| measure | ρ over settings | of all pairs | of one prompt | of one setting |\n"
      "| --- | --- | --- | --- | --- |\n",
      rows.front().prompts,
      rows.front().failed_prompts > 0
          ? fmt::format(" ({} more left out, on which the full cache fails)",
                        rows.front().failed_prompts)
          : std::string(),
      rows.front().settings_count, outcome);
  const auto cell = [](const Foretold& one, bool share) {
    if (std::isnan(one.value)) return std::string("unknown");
    return share ? fmt::format("{:.0f} % [{:.0f}, {:.0f}]", 100 * one.value, 100 * one.low,
                               100 * one.high)
                 : fmt::format("{:.2f} [{:.2f}, {:.2f}]", one.value, one.low, one.high);
  };
  for (const Foretelling& row : rows) {
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.measure, cell(row.settings, false),
                        cell(row.pairs, true), cell(row.pairs_of_prompt, true),
                        cell(row.pairs_of_setting, true));
  }
  return text;
}

}  // namespace kvloupe

#include "analysis/study/foretell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "analysis/base/core/error.h"
#include "analysis/base/text/table.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/math/numeric/splitmix.h"
#include "analysis/math/rank_correlation.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_traces.h"
#include "analysis/trace/sha256.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

namespace {

/// Measure and outcome of the prompts that have both, [prompts, settings]; more is better in both.
struct Joined {
  std::size_t settings = 0, prompts = 0, failed = 0, left_out = 0;
  std::vector<std::pair<double, double>> runs;
  const std::pair<double, double>& run(std::size_t setting, std::size_t prompt) const {
    return runs[prompt * settings + setting];
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

/// Of Foretelling: settings, pairs, pairs_of_prompt, pairs_of_setting.
using Numbers = std::array<double, 4>;

/// The numbers over these prompts; a prompt may occur several times.
Numbers numbers_of(const Joined& joined, const std::vector<std::size_t>& drawn) {
  std::vector<double> measures, outcomes;
  Pairs all, of_prompt, of_setting;
  std::vector<std::pair<double, double>> runs;
  for (std::size_t setting = 0; setting < joined.settings; ++setting) {
    double measure = 0.0, outcome = 0.0;
    std::vector<std::pair<double, double>> own;
    for (const std::size_t prompt : drawn) {
      own.push_back(joined.run(setting, prompt));
      measure += own.back().first;
      outcome += own.back().second;
    }
    measures.push_back(measure);
    outcomes.push_back(outcome);
    runs.insert(runs.end(), own.begin(), own.end());
    add_pairs(std::move(own), of_setting);
  }
  add_pairs(std::move(runs), all);
  for (const std::size_t prompt : drawn) {
    const auto* const first = &joined.run(0, prompt);
    add_pairs({first, first + joined.settings}, of_prompt);
  }
  return {spearman(measures, outcomes), all.share(), of_prompt.share(), of_setting.share()};
}

/// `prompts`: of a share; 0 for a correlation.
Foretold interval(double value, std::vector<double> drawn, long prompts) {
  std::erase_if(drawn, [](double one) { return std::isnan(one); });
  if (std::isnan(value) || drawn.empty()) return {kUnknown, kUnknown, kUnknown};
  std::sort(drawn.begin(), drawn.end());
  if (drawn.front() == drawn.back()) {
    if (prompts == 0) return {value, kUnknown, kUnknown};
    const MeanInterval share =
        wilson_share(std::lround(value * static_cast<double>(prompts)), prompts);
    return {value, share.low, share.high};
  }
  const std::size_t tail = drawn.size() * 25 / 1000;
  return {value, drawn[tail], drawn[drawn.size() - 1 - tail]};
}

Foretelling foretelling_of(const Joined& joined) {
  std::vector<std::size_t> prompts(joined.prompts);
  std::iota(prompts.begin(), prompts.end(), std::size_t{0});
  const Numbers of_all = numbers_of(joined, prompts);
  std::array<std::vector<double>, 4> drawn;
  std::uint64_t state = splitmix(kBootstrapSeed);
  for (int i = 0; i < kForetellResamples; ++i) {
    for (std::size_t& prompt : prompts) {
      state += kSplitmixStep;
      prompt = ((splitmix_output(state) >> 32U) * joined.prompts) >> 32U;
    }
    const Numbers numbers = numbers_of(joined, prompts);
    for (std::size_t n = 0; n < drawn.size(); ++n) drawn[n].push_back(numbers[n]);
  }
  Foretelling result;
  result.prompts = static_cast<int>(joined.prompts);
  result.failed_prompts = static_cast<int>(joined.failed);
  result.left_out = static_cast<int>(joined.left_out);
  result.settings_count = static_cast<int>(joined.settings);
  Foretold* const places[] = {&result.settings, &result.pairs, &result.pairs_of_prompt,
                              &result.pairs_of_setting};
  for (std::size_t n = 0; n < drawn.size(); ++n)
    *places[n] = interval(of_all[n], std::move(drawn[n]), n == 0 ? 0 : result.prompts);
  return result;
}

std::string left_out_text(std::size_t traces) {
  if (traces == 0) return {};
  return fmt::format(
      " ({} traces left out: their prompt or its name is there twice, or the prompt of their name "
      "has other tokens or ran in another model)",
      traces);
}

double oriented(double value, Better better) { return better == Better::smaller ? -value : value; }

/// What tells whether a trace and a prompt are the same one. Empty: not known.
struct Origin {
  std::string key, tokens, model;
};

std::string fingerprint_of(const std::string& ids) {
  Sha256 hash;
  hash.add(ids);
  return hash.hex();
}

/// The prompts of a study's replays and runs, each looked up once.
class Origins {
 public:
  explicit Origins(const StudyTable& table) : table_(table) {
    if (!table.path.empty()) results_.emplace(table.path, StudyResults::Checked{});
  }

  std::vector<Origin> of(const MeasureTable& measure, bool traces) {
    std::vector<Origin> found;
    for (std::size_t prompt = 0; prompt < measure.prompts.size(); ++prompt) {
      const auto [known, is_new] = known_.try_emplace(measure.prompts[prompt]);
      if (is_new) {
        known->second.key = prompt_key(known->first);
        if (results_ && traces) look_at_trace(known->first, known->second);
        if (results_ && !traces) look_at_run(measure, prompt, known->second);
      }
      found.push_back(known->second);
    }
    return found;
  }

 private:
  void look_at_trace(const std::string& name, Origin& origin) {
    origin.model = results_->model_of(name);
    try {
      const std::filesystem::path path = find_study_trace(table_, name);
      if (path.empty()) return;
      const Trace trace(path);
      const std::span ids(trace.tokens().ids);
      if (trace.identity() != results_->trace_identity(name)) return;
      origin.tokens = fingerprint_of(fmt::format(
          "{}", fmt::join(ids.first(static_cast<std::size_t>(trace.run().prompt_length)), " ")));
    } catch (const FileError&) {
      // The name has to tell.
    }
  }
  void look_at_run(const MeasureTable& measure, std::size_t prompt, Origin& origin) {
    for (std::size_t i = prompt; i < measure.items.size(); i += measure.prompts.size()) {
      if (measure.items[i] < 0) continue;
      const auto stored =
          nlohmann::json::parse(results_->prompt(measure.items[i]).stored, nullptr, false);
      if (!stored.is_object() || !stored.contains("ids") || !stored["ids"].is_string()) continue;
      origin.tokens = fingerprint_of(stored["ids"].get<std::string>());
      if (const auto model = stored.find("fingerprint");
          model != stored.end() && model->is_string())
        origin.model = model->get<std::string>();
      return;
    }
  }

  const StudyTable& table_;
  std::optional<StudyResults> results_;
  std::map<std::string, Origin> known_;
};

/// For each trace the place of its prompt, if there is one; counts what is left out.
std::vector<std::optional<std::size_t>> matches(const std::vector<Origin>& traces,
                                                const std::vector<Origin>& prompts,
                                                std::size_t& left_out) {
  std::map<std::string, std::vector<std::size_t>> by_tokens, by_key;
  std::map<std::string, int> traces_of_key;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (!prompts[i].tokens.empty()) by_tokens[prompts[i].tokens].push_back(i);
    by_key[prompts[i].key].push_back(i);
  }
  for (const Origin& trace : traces) ++traces_of_key[trace.key];
  const auto differ = [](const std::string& a, const std::string& b) {
    return !a.empty() && !b.empty() && a != b;
  };
  std::vector<std::optional<std::size_t>> found;
  std::set<std::size_t> used;
  for (const Origin& trace : traces) {
    found.emplace_back();
    const auto same = by_tokens.find(trace.tokens);  // none where the tokens are not known
    const bool by_content = same != by_tokens.end();
    const auto named = by_key.find(trace.key);
    if (!by_content && named == by_key.end()) continue;  // without a run
    const std::vector<std::size_t>& places = by_content ? same->second : named->second;
    const bool one = by_content || (places.size() == 1 && traces_of_key[trace.key] == 1);
    const auto place = std::find_if(places.begin(), places.end(), [&](std::size_t at) {
      return !used.contains(at) && !differ(trace.tokens, prompts[at].tokens) &&
             !differ(trace.model, prompts[at].model);
    });
    if (one && place != places.end()) {
      used.insert(*place);
      found.back() = *place;
    } else {
      ++left_out;
    }
  }
  return found;
}

/// Prompts and settings of which both are known.
Joined join(const MeasureTable& measure, Better measure_better, const MeasureTable& outcome,
            const StudyMeasure& result, Origins& origins) {
  Joined joined;
  const std::vector<std::optional<std::size_t>> places =
      matches(origins.of(measure, true), origins.of(outcome, false), joined.left_out);
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
  joined.settings = settings.size();
  for (std::size_t prompt = 0; prompt < measure.prompts.size(); ++prompt) {
    if (!places[prompt]) continue;
    std::vector<std::pair<double, double>> runs;
    for (const Setting& one : settings) {
      runs.emplace_back(oriented(measure.value(one.policy, one.budget, prompt), measure_better),
                        oriented(outcome.value(one.other_policy, one.other_budget, *places[prompt]),
                                 result.better));
    }
    if (std::any_of(runs.begin(), runs.end(), [](const auto& run) {
          return !std::isfinite(run.first) || !std::isfinite(run.second);
        })) {
      continue;
    }
    if (result.share && outcome.full[*places[prompt]] == 0.0) {
      ++joined.failed;
      continue;
    }
    ++joined.prompts;
    joined.runs.insert(joined.runs.end(), runs.begin(), runs.end());
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
  Origins origins(table);
  std::size_t left_out = 0;
  for (std::size_t m = 0; m < table.measures.size(); ++m) {
    const auto known = find_study_measure(table.measures[m]);
    if (!known || known->task != kReplayTask) continue;
    const std::vector<std::string> blocks = blocks_of(table, static_cast<int>(m));
    if (blocks.empty() || outcome_blocks.empty()) continue;
    const Joined joined =
        join(measure_table(table, static_cast<int>(m), blocks.front()), known->better,
             measure_table(table, column, outcome_blocks.front()), *result, origins);
    left_out = std::max(left_out, joined.left_out);
    if (joined.prompts == 0 || joined.settings == 0) continue;
    Foretelling row = foretelling_of(joined);
    row.measure = table.measures[m];
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    throw UsageError(fmt::format(
        "foretell: the results have no prompt with both replays and runs in the model{}; a trace "
        "belongs to the prompt with its tokens, or, where it is not found, NAME.h5 to NAME.txt and "
        "NAME-00012.h5 to line 12 of NAME.jsonl",
        left_out_text(left_out)));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Foretelling& a, const Foretelling& b) {
    const bool known = !std::isnan(a.settings.value), other = !std::isnan(b.settings.value);
    return known != other ? known : known && a.settings.value > b.settings.value;
  });
  return rows;
}

std::string foretell_markdown(const std::vector<Foretelling>& rows, std::string_view outcome) {
  const Foretelling& first = rows.front();
  const auto cell = [](const Foretold& one, bool share) {
    if (std::isnan(one.value)) return std::string("unknown");
    if (std::isnan(one.low)) return fmt::format("{:.2f} [unknown]", one.value);
    return share ? fmt::format("{:.0f} % [{:.0f}, {:.0f}]", 100 * one.value, 100 * one.low,
                               100 * one.high)
                 : fmt::format("{:.2f} [{:.2f}, {:.2f}]", one.value, one.low, one.high);
  };
  Table table{
      .columns = {"measure", "ρ over settings", "of all pairs", "of one prompt", "of one setting"}};
  for (const Foretelling& row : rows)
    table.add({"`" + row.measure + "`", cell(row.settings, false), cell(row.pairs, true),
               cell(row.pairs_of_prompt, true), cell(row.pairs_of_setting, true)});
  std::string text = fmt::format(
      "{} prompts{}{}, {} settings; outcome: {}\n\n{}", first.prompts,
      first.failed_prompts > 0
          ? fmt::format(" ({} more left out, on which the full cache fails)", first.failed_prompts)
          : std::string(),
      left_out_text(static_cast<std::size_t>(first.left_out)), first.settings_count, outcome,
      markdown_table(table));
  if (first.prompts < kFewestForBootstrap) {
    text += fmt::format("\nFewer than {} prompts: the intervals are too narrow.\n",
                        kFewestForBootstrap);
  }
  return text;
}

std::string foretell_files(const std::vector<std::filesystem::path>& files,
                           std::string_view outcome) {
  std::vector<std::pair<std::string, std::string>> models;  // fingerprint, or its name; tables
  for (const std::filesystem::path& file : files) {
    const StudyTable table = read_study_table(file);
    StudyResults results(file, StudyResults::Checked{});
    results.require_one_model();
    std::string text;
    try {
      text = foretell_markdown(foretell(table, outcome), outcome);
    } catch (const UsageError& error) {
      throw UsageError(in_one_line(file.string(), 200) + ": " + error.what());
    }
    if (files.size() == 1) return text;
    const std::vector<std::string> known = results.fingerprints();
    const std::string model = known.empty() ? results.setting("model") : known.front();
    auto place = std::find_if(models.begin(), models.end(),
                              [&](const auto& one) { return one.first == model; });
    if (place == models.end()) place = models.insert(place, {model, ""});
    place->second += fmt::format("## {} ({})\n\n{}\n", in_one_line(results.model_name(), 200),
                                 in_one_line(file.string(), 200), text);
  }
  std::string text;
  for (const auto& [model, tables] : models) text += tables;
  return text;
}

}  // namespace kvloupe

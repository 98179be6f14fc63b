#include "analysis/replay/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/unknown.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/policy/kit/shared_prefix.h"
#include "analysis/policy/policy_files.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure/shared_measures.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/given_tokens.h"

namespace kvloupe {

std::vector<std::string> usual_measures(const Trace& trace) {
  const std::string queries = asked_name(asked_first(trace.tokens(), trace.run()));
  return {queries + (trace.has_output_weight() ? "_residual_change" : "_kept_attention")};
}

std::vector<SweepSetting> sweep_settings(const Trace& trace, const SweepRequest& request) {
  std::vector<SweepSetting> settings;
  for (const PolicySpec& policy : request.policies) {
    check_combination(policy);
    for (const Budget& budget : request.budgets) {
      for (const int block : request.blocks) {
        replay_blocks(trace, block, request.compression);
        const SweepSetting setting = {policy, budget_entries(budget, trace, policy),
                                      replay_block(trace, block),
                                      replay_compression(trace, request.compression)};
        if (std::find(settings.begin(), settings.end(), setting) == settings.end()) {
          settings.push_back(setting);
        }
      }
    }
  }
  return settings;
}

namespace {
constexpr const char* kNamed[] = {"trace", "identity",    "policy", "budget",
                                  "block", "compression", "layer",  "head"};

/// After the measures.
constexpr const char* kTerms[] = {"question", "prompt_compressed", "budget_counts"};

/// Before sweeps knew them, a file had no columns for these.
struct Columns {
  bool compression = true;
  bool terms = true;
};

std::string heading(const Columns& columns = {}) {
  std::string line;
  for (const char* name : kNamed) {
    if (!columns.compression && name == std::string_view("compression")) continue;
    line += (line.empty() ? "" : ",") + std::string(name);
  }
  for (const Measure& measure : all_measures()) line += "," + measure.info->name;
  for (const char* name : kTerms) {
    if (columns.terms) line += "," + std::string(name);
  }
  return line;
}

/// The cells of one line; a quote is written twice inside quotes. False where a quote stays open.
bool split(const std::string& line, std::vector<std::string>& cells) {
  cells.assign(1, "");
  bool quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quotes && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quotes = !quotes;
    } else if (c == ',' && !quotes) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return !quotes;
}

template <typename Number>
bool read(const std::string& cell, Number& number) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return error == std::errc() && end == cell.data() + cell.size();
}

bool read(const std::string& cell, Compression& compression) {
  for (const Compression one : {Compression::regular, Compression::context_only}) {
    if (cell != compression_name(one)) continue;
    compression = one;
    return true;
  }
  return false;
}

/// Identity of the trace, and of the files and plugins that the policy is made of.
std::string identity_of(const Trace& trace, const SweepSetting& setting) {
  return trace.identity() + policy_files(setting.policy);
}

bool is_of(const SweepRow& row, const Trace& trace) {
  return row.identity == trace.identity() || row.identity.starts_with(trace.identity() + " ");
}

constexpr std::size_t kLongestLine = std::size_t{1} << 20U;  // a row has some hundred bytes

/// The same setting, also where a file of its policy has changed since.
bool same_setting(const SweepRow& row, const Trace& trace, const SweepSetting& setting) {
  return is_of(row, trace) && row.policy == setting.policy.text() && row.budget == setting.budget &&
         row.block == setting.block && row.compression == setting.compression;
}
}  // namespace

SweepTable SweepTable::load(const std::string& path) {
  SweepTable table;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return table;
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path, error)) {
    throw FileError(path, "cannot be opened; check the name");
  }
  std::string line;
  read_line(file, line, kLongestLine);
  constexpr Columns kVersions[] = {{true, true}, {true, false}, {false, false}};
  const auto columns = std::find_if(std::begin(kVersions), std::end(kVersions),
                                    [&](const Columns& one) { return line == heading(one); });
  if (!file || columns == std::end(kVersions)) {
    throw FileError(path, "is not a sweep of this version; choose another name for the output");
  }
  std::vector<std::string> cells;
  for (long number = 2; read_line(file, line, kLongestLine); ++number) {
    SweepRow row;
    bool good = split(line, cells);
    if (good && !columns->compression && cells.size() > 5) {
      cells.insert(cells.begin() + 5, "regular");
    }
    if (!columns->terms) cells.resize(cells.size() + std::size(kTerms));
    constexpr std::size_t named = std::size(kNamed);
    const std::size_t measured = named + all_measures().size();
    good = good && cells.size() == measured + std::size(kTerms) && read(cells[3], row.budget) &&
           read(cells[4], row.block) && read(cells[5], row.compression) &&
           read(cells[6], row.layer) && read(cells[7], row.head);
    for (std::size_t i = named; good && i < measured; ++i) {
      row.values.push_back(kUnknown);
      if (!cells[i].empty()) good = read(cells[i], row.values.back());
    }
    if (!good) {
      throw FileError(path, "line " + std::to_string(number) +
                                " is not a row of a sweep; choose another name for the output");
    }
    row.trace = cells[0];
    row.identity = cells[1];
    row.policy = cells[2];
    row.question = cells[measured];
    row.prompt_compressed = cells[measured + 1];
    row.budget_counts = cells[measured + 2];
    table.rows_.push_back(std::move(row));
  }
  // Else the part that was read would be written in place of all.
  if (file.bad()) throw FileError(path, "cannot be read to its end; check the disk");
  return table;
}

bool SweepTable::has(const Trace& trace, const SweepSetting& setting) const {
  const std::string identity = identity_of(trace, setting);
  const auto count = std::count_if(rows_.begin(), rows_.end(), [&](const SweepRow& row) {
    return same_setting(row, trace, setting) && row.identity == identity;
  });
  return count == trace.all_heads();
}

void SweepTable::add(const Trace& trace, const SweepSetting& setting, const Replay& replay) {
  std::erase_if(rows_, [&](const SweepRow& row) { return same_setting(row, trace, setting); });
  const ComparisonTerms terms =
      comparison_terms(setting.policy, setting.compression,
                       compresses_at_once(trace, setting.block, setting.compression));
  for (const HeadReplay& head : replay.heads) {
    SweepRow row = {trace.path().filename().string(),
                    identity_of(trace, setting),
                    setting.policy.text(),
                    setting.budget,
                    setting.block,
                    setting.compression,
                    head.layer,
                    head.head,
                    {},
                    std::string(term(terms.question)),
                    std::string(term(terms.prompt)),
                    std::string(term(terms.budget))};
    for (const Measure& measure : all_measures()) row.values.push_back(measure_of(measure, head));
    rows_.push_back(std::move(row));
  }
}

void SweepTable::save(const std::string& path) const {
  OutputFile out(path);
  out.write(heading() + "\n");
  for (const SweepRow& row : rows_) {
    std::string line =
        fmt::format("{},{},{},{},{},{},{},{}", doubled_quotes(row.trace),
                    doubled_quotes(row.identity), doubled_quotes(row.policy), row.budget, row.block,
                    compression_name(row.compression), row.layer, row.head);
    for (const double value : row.values) {
      line += std::isfinite(value) ? fmt::format(",{}", value) : std::string(",");
    }
    out.write(fmt::format("{},{},{},{}\n", line, doubled_quotes(row.question),
                          doubled_quotes(row.prompt_compressed),
                          doubled_quotes(row.budget_counts)));
  }
  out.finish();
}

void run_sweep(const Trace& trace, const std::vector<SweepSetting>& settings,
               const std::string& path, SweepTable& table, Progress& progress,
               const std::function<void(std::size_t place, std::size_t count,
                                        const SweepSetting& setting, bool known)>& report,
               const std::vector<std::string>& measures, const SweepShared* shared) {
  constexpr std::size_t kMostStates = std::size_t{1} << 30U;
  constexpr std::size_t kMostShared = std::size_t{1} << 28U;
  constexpr std::size_t kMostPrefix = std::size_t{1} << 26U;
  LayerStatesCache own_states(kMostStates);
  SharedMeasures own_measures(kMostShared);
  SharedPrefix prefix(kMostPrefix);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    progress.check();
    const SweepSetting& setting = settings[i];
    const bool known = table.has(trace, setting);
    if (report) report(i, settings.size(), setting, known);
    if (known) continue;
    ReplayRequest request{.policy = setting.policy,
                          .budget = setting.budget,
                          .block = setting.block,
                          .compression = setting.compression,
                          .measures = measures};
    request.summary = true;  // a row holds what measure_of() reads
    request.states = shared != nullptr ? &shared->states : &own_states;
    request.shared = shared != nullptr ? &shared->measures : &own_measures;
    request.prefix = &prefix;
    table.add(trace, setting, replay(trace, request, progress));
    if (!path.empty()) table.save(path);
  }
}

bool is_floor(std::string_view measure) {
  return require_measure(measure).info->better == Better::larger;
}

std::vector<SmallestBudget> smallest_budgets(const SweepTable& table, const Trace& trace,
                                             std::string_view measure, double limit) {
  const auto column = static_cast<std::size_t>(&require_measure(measure) - all_measures().data());
  std::vector<SmallestBudget> result;
  for (const SweepRow& row : table.rows()) {
    if (!is_of(row, trace)) continue;
    const auto own = std::find_if(result.begin(), result.end(), [&](const SmallestBudget& s) {
      return s.policy == row.policy && s.block == row.block && s.compression == row.compression &&
             s.layer == row.layer && s.head == row.head;
    });
    SmallestBudget& smallest =
        own != result.end() ? *own
                            : result.emplace_back(SmallestBudget{
                                  row.policy, row.block, row.compression, row.layer, row.head, {}});
    const double value = row.values[column];
    if (is_floor(measure) ? value >= limit : value <= limit) {
      smallest.budget = std::min(smallest.budget.value_or(row.budget), row.budget);
    }
  }
  return result;
}

}  // namespace kvloupe

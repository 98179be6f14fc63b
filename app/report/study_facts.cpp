#include "app/report/study_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>

#include "analysis/base/text/text.h"
#include "analysis/study/study.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_traces.h"
#include "analysis/trace/trace.h"
#include "app/figure/figures/of_study.h"
#include "app/plot/ticks.h"

namespace kvloupe::report {

using figure::format_count;
using figure::format_counted;

namespace {

constexpr std::size_t kMostTraces = 200;     // that are opened for their lengths
constexpr std::size_t kMostGroups = 4;       // of prompts, by file or folder
constexpr std::size_t kMostStudyFiles = 64;  // that are looked at
constexpr std::size_t kLongestPlace = 120;   // bytes

/// The end of a path that tells a reader of another machine what it is: a path from the study's own
/// folder as it is, of any other the last name.
std::string without_folders(const std::filesystem::path& path) {
  if (path.is_relative()) return path.string();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

/// The group of a prompt: its file of JSON lines, the traces of its folder, or the generated
/// prompts of its length.
std::string group_of(const std::string& name, bool trace) {
  std::string place = name;
  if (!trace) {
    if (const auto colon = place.find(": "); colon != std::string::npos) place.erase(0, colon + 2);
    if (const auto sample = place.rfind(", sample "); sample != std::string::npos)
      return "generated, " + place.substr(0, place.find(','));
    if (const auto line = place.rfind('#'); line != std::string::npos) place.resize(line);
    if (place.ends_with(".jsonl")) return without_folders(place);
  }
  const std::filesystem::path path(place);
  const std::string all = "*" + path.extension().string();
  return path.has_parent_path()
             ? (std::filesystem::path(without_folders(path.parent_path())) / all).string()
             : all;
}

std::string prompt_words(const MeasureTable& table, bool traces) {
  std::vector<std::pair<std::string, long>> groups;
  for (const std::string& name : table.prompts) {
    const std::string group = group_of(name, traces);
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& one) { return one.first == group; });
    if (found == groups.end()) {
      groups.emplace_back(group, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> words;
  for (const auto& [group, count] : groups) {
    const std::string shown = in_one_line(group, kLongestPlace);
    words.push_back(groups.size() == 1 ? shown
                                       : fmt::format("{} of {}", format_count(count), shown));
  }
  return fmt::format(
      "{}: {}",
      format_counted(static_cast<long>(table.prompts.size()), traces ? "trace" : "prompt"),
      short_list(words, kMostGroups));
}

struct Lengths {
  long shortest = 0, longest = 0;
  void add(long tokens) {
    shortest = longest == 0 ? tokens : std::min(shortest, tokens);
    longest = std::max(longest, tokens);
  }
  std::string text() const {
    return shortest == longest
               ? format_counted(longest, "token")
               : fmt::format("{} to {} tokens", format_count(shortest), format_count(longest));
  }
};

/// From the runs with the full cache; else from the traces; else, roughly, from the budgets that
/// are shares of the prompt.
std::string length_words(const StudyTable& study, const MeasureTable& table, bool traces,
                         Progress& progress) {
  const std::set<std::string> prompts(table.prompts.begin(), table.prompts.end());
  Lengths known;
  for (const StudyResults::Item& item : study.items) {
    if (item.budget == kFullCache && item.entries > 0 && prompts.contains(item.trace))
      known.add(item.entries);
  }
  if (known.longest > 0) return known.text();
  if (traces && prompts.size() <= kMostTraces) {
    std::size_t found = 0;
    for (const std::string& name : prompts) {
      progress.check();
      try {
        const std::filesystem::path path = find_study_trace(study, name);
        if (path.empty()) break;
        known.add(Trace(path).run().prompt_length);
        ++found;
      } catch (const std::runtime_error&) {
        break;  // it cannot be opened: the budgets tell
      }
    }
    if (found == prompts.size() && found > 0) return known.text();
  }
  double largest = 0.0;
  Lengths roughly;
  for (const StudyResults::Item& item : study.items) {
    double percent = 0.0;
    const char* end = item.budget.data() + item.budget.size();
    const auto [rest, error] = std::from_chars(item.budget.data(), end, percent);
    if (error != std::errc() || rest + 1 != end || *rest != '%' || item.entries <= 0 ||
        !(percent > 0.0) || !prompts.contains(item.trace) || percent < largest)
      continue;
    if (percent > largest) roughly = {};
    largest = percent;
    roughly.add(std::lround(item.entries * 100.0 / percent));
  }
  return roughly.longest > 0 ? "about " + roughly.text() : std::string();
}

std::string short_fingerprint(const std::string& text) {
  constexpr std::size_t kShown = 15;  // "v1:" and twelve digits
  return in_one_line(text.substr(0, kShown));
}

std::string model_words(const StudyTable& study, StudyResults& results, bool traces) {
  std::vector<std::string> known;
  std::string name;
  if (traces) {
    const auto models = results.models();
    const std::string trace = models.empty() ? study.items.front().trace : models.front().second;
    try {
      if (const std::filesystem::path path = find_study_trace(study, trace); !path.empty()) {
        const Trace opened(path);
        name = in_one_line(opened.model().name, kLongestPlace);
        known.push_back(fmt::format("{}, {}", format_counted(opened.model().num_layers, "layer"),
                                    format_counted(opened.model().all_cache_heads(), "head")));
      }
    } catch (const std::runtime_error&) {
      // The trace cannot be opened: its name is not known.
    }
    if (!models.empty()) known.push_back("fingerprint " + short_fingerprint(models.front().first));
  } else {
    const std::filesystem::path place = results.setting("model");
    name = in_one_line((place.has_filename() ? place : place.parent_path()).filename().string(),
                       kLongestPlace);
    const std::vector<std::string> fingerprints = results.fingerprints();
    if (!fingerprints.empty())
      known.push_back("fingerprint " + short_fingerprint(fingerprints.front()));
    known.push_back("dtype " + in_one_line(results.setting("dtype")));
    known.push_back(in_one_line(results.setting("positions")) + " positions");
  }
  if (name.empty()) name = traces ? "not known, because the traces were not found" : "not known";
  return known.empty() ? name : fmt::format("{} ({})", name, fmt::join(known, "; "));
}

/// The study file whose study the results hold: beside the results, or in the folder that they
/// name.
std::string study_file_of(const StudyTable& study, StudyResults& results, Progress& progress) {
  const std::filesystem::path folder = study.path.parent_path();
  std::vector<std::filesystem::path> folders{folder};
  for (const std::string& other : results.study_folders())
    folders.push_back((folder / other).lexically_normal());
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& one : folders) {
    std::error_code error;
    std::filesystem::directory_iterator entry(one.empty() ? "." : one, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      if (entry->path().extension() == ".json") files.push_back(one / entry->path().filename());
    }
  }
  // A name like that of the results first.
  std::sort(files.begin(), files.end());
  std::stable_partition(files.begin(), files.end(),
                        [&](const auto& file) { return file.stem() == study.path.stem(); });
  files.resize(std::min(files.size(), kMostStudyFiles));
  for (const std::filesystem::path& file : files) {
    progress.check();
    try {
      if (results.is_of(read_study(file))) return file.lexically_normal().string();
    } catch (const std::runtime_error&) {
      // Another file, or one whose traces or prompts are gone.
    }
  }
  return {};
}

std::string work_words(const StudyFacts& facts, const StudyMeasure& measure, StudyResults& results,
                       const MeasureTable& table) {
  std::string text =
      measure.task == kReplayTask
          ? "replays of recorded runs with the full cache (open loop)"
          : fmt::format(
                "runs of the task {} with the policy in the model's own cache (closed loop)",
                in_one_line(measure.task));
  if (facts.has_replays && facts.has_runs)
    text += measure.task == kReplayTask ? "; the study has runs in the model as well"
                                        : "; the study has replays as well";
  if (table.block != "capture") text += "; " + block_words(table.block);
  if (const std::string how = results.setting("compression"); how == "context-only")
    text += "; entries are evicted while the context is read, not the question";
  return text;
}

}  // namespace

std::string block_words(const std::string& block) {
  if (block == "all") return "the whole prompt in one block";
  if (block == "capture") return "blocks as captured";
  return "blocks of " + in_one_line(block) + " tokens";
}

std::string with_interval(const MeanInterval& one) {
  return std::isfinite(one.low)
             ? fmt::format("{:.3g} [{:.3g}, {:.3g}]", one.mean, one.low, one.high)
             : fmt::format("{:.3g}", one.mean);
}

std::string short_list(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(most));
  return fmt::format("{} and {} more", fmt::join(shown, ", "), names.size() - most);
}

StudyFacts study_facts(const StudyTable& study, const MeasureTable& table, Progress& progress) {
  StudyResults results(study.path, StudyResults::Checked{});
  StudyFacts facts;
  long failed = 0;
  for (const StudyResults::Item& item : study.items) {
    (item.task == kReplayTask ? facts.has_replays : facts.has_runs) = true;
    failed += item.state == "failed" ? 1 : 0;
  }
  const StudyMeasure measure = figure::described(table.measure);
  const bool traces = measure.task == kReplayTask;
  facts.model = model_words(study, results, traces);
  facts.prompts = prompt_words(table, traces);
  facts.lengths = length_words(study, table, traces, progress);
  facts.work = work_words(facts, measure, results, table);
  const auto all = static_cast<long>(study.items.size());
  facts.progress = study.done() == all ? fmt::format("all {} items are done", format_count(all))
                                       : fmt::format("{} of {} items are done",
                                                     format_count(study.done()), format_count(all));
  if (failed > 0) facts.progress += fmt::format(", {} failed", format_count(failed));
  facts.study_file = study_file_of(study, results, progress);
  return facts;
}

}  // namespace kvloupe::report

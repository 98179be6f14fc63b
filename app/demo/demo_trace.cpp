#include "app/demo/demo_trace.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <regex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/child_process.h"
#include "analysis/base/system/user_files.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/policy/policy_files.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/trace.h"
#include "app/job/assets.h"
#include "app/job/capture_job.h"

namespace kvloupe::demo {

namespace fs = std::filesystem;

namespace {

constexpr std::array kModelFiles = {"config.json", "model.safetensors", "tokenizer.model"};

/// Seconds and nanoseconds, which compare in this order.
using Moment = std::pair<std::int64_t, std::int64_t>;
Moment moment(const timespec& time) { return {time.tv_sec, time.tv_nsec}; }

std::optional<struct stat> status_of(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return status;
}

fs::path own_cache_folder() {
  const fs::path cache = kvloupe::cache_folder();
  if (!cache.empty()) return cache;
  throw WorkError("no folder for the demo's trace; set XDG_CACHE_HOME to a folder");
}

/// FNV-1a, the same in every build: names of files depend on it.
std::uint32_t short_hash(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

/// A policy with a text in the place of each name of a segment in braces.
std::string filled(const std::string& policy,
                   const std::function<std::string(const std::string&)>& tokens_of) {
  static const std::regex name(R"(\{([a-z][a-z0-9_-]*)\})");
  std::string text;
  auto from = policy.begin();
  for (std::sregex_iterator at(policy.begin(), policy.end(), name), end; at != end; ++at) {
    text.append(from, policy.begin() + at->position());
    text += tokens_of((*at)[1].str());
    from = policy.begin() + at->position() + at->length();
  }
  return text.append(from, policy.end());
}

/// For a check before there is a trace.
std::string any_token(const std::string& /*segment*/) { return "0"; }

bool is_prompt_name(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

/// The run with its policy as the catalogue writes it, so that equal runs have one trace.
DemoRun normal(DemoRun run) {
  if (!is_prompt_name(run.prompt)) {
    throw UsageError("prompt \"" + run.prompt +
                     "\": give the name of a file in assets/prompts, without .txt");
  }
  if (run.policy.empty()) {
    run.budget.clear();
    run.own_words = false;
    return run;
  }
  run.policy = normal_policy(run.policy);
  run.budget = parse_budget(run.budget).text();
  return run;
}

DemoPlaces found(DemoPlaces places) {
  if (places.assets.empty()) places.assets = job::find_asset("demo-model").parent_path();
  places.cache = traces_folder(places.cache);
  if (places.program.empty()) places.program = find_program("kvloupe-capture");
  return places;
}

fs::path prompt_file(const DemoRun& run, const DemoPlaces& places) {
  return places.assets / "prompts" / (run.prompt + ".txt");
}

/// The file of the trace. `run` and `places` have all their fields.
fs::path trace_file(const DemoRun& run, const DemoPlaces& places) {
  std::error_code error;
  fs::path model = fs::weakly_canonical(places.assets / "demo-model", error);
  if (error) model = places.assets / "demo-model";
  std::string name = "demo-" + run.prompt;
  if (!run.policy.empty()) name += "-" + file_word(run.policy) + "-" + file_word(run.budget);
  if (run.own_words) name += "-writes";
  std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", model.string(), run.prompt, run.generate,
                                run.block, run.policy, run.budget);
  if (run.own_words) key += "\nwrites";
  return places.cache / fmt::format("{}-{:08x}.h5", name, short_hash(key));
}

/// Everything a run is made from.
std::vector<fs::path> sources_of(const DemoRun& run, const DemoPlaces& places) {
  std::vector<fs::path> sources = {prompt_file(run, places)};
  for (const char* name : kModelFiles) sources.push_back(places.assets / "demo-model" / name);
  if (!places.program.empty()) sources.emplace_back(places.program);
  if (!run.policy.empty()) {
    for (const std::string& plugin : policy_plugins(parse_policy(filled(run.policy, any_token)))) {
      sources.emplace_back(plugin);
    }
  }
  return sources;
}

/// Whether a kept trace may be used: it can be read, and all its sources are older. The age of a
/// source is its ctime, the time when it was last put in its place or changed: the modification
/// time of an installed file is older than the installation.
bool is_fresh(const fs::path& trace, const std::vector<fs::path>& sources) {
  const auto made = status_of(trace);
  if (!made || !S_ISREG(made->st_mode)) return false;
  for (const fs::path& source : sources) {
    const auto status = status_of(source);
    if (!status || moment(status->st_ctim) >= moment(made->st_mtim)) return false;
  }
  try {
    Trace readable(trace);
    return true;
  } catch (const std::exception&) {  // half a file, or none of ours: it is made anew
    return false;
  }
}

/// Runs kvloupe-capture; `progress` counts tokens.
void capture(const window::CaptureOptions& options, Progress& progress) {
  int told = 0;
  window::run_capture_program(options, progress, [&](const window::CaptureState& state) {
    progress.set_total(state.total);
    progress.advance(state.done - std::exchange(told, state.done));
  });
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    throw FileError(folder.string(),
                    "the demo's trace cannot be stored here (" +
                        (error ? error.message() : std::string("it is not a folder")) +
                        "); set XDG_CACHE_HOME to a folder that kvloupe can write to");
  }
}

}  // namespace

fs::path traces_folder(const fs::path& cache) { return cache.empty() ? own_cache_folder() : cache; }

std::string with_segments(const std::string& policy, const TokenTable& tokens) {
  return filled(policy, [&](const std::string& name) {
    std::string list;
    for (std::size_t i = 0; i < tokens.segment.size(); ++i) {
      const auto is_inside = [&](std::size_t token) {
        return tokens.segment_names[tokens.segment[token]] == name;
      };
      if (!is_inside(i) || (i > 0 && is_inside(i - 1))) continue;
      std::size_t last = i;
      while (last + 1 < tokens.segment.size() && is_inside(last + 1)) ++last;
      list += fmt::format("{}{}-{}", list.empty() ? "" : ";", i, last);
    }
    if (list.empty())
      throw WorkError("the policy " + policy + " names the segment " + name +
                      ", which the prompt does not have");
    return list;
  });
}

std::string normal_policy(const std::string& policy) {
  const std::string checked = parse_policy(filled(policy, any_token)).text();
  return policy.find('{') == std::string::npos ? checked : policy;
}

fs::path demo_trace_path(const DemoRun& run, const DemoPlaces& places) {
  return trace_file(normal(run), found(places));
}

fs::path demo_trace(const DemoRun& asked, Progress& progress, const DemoPlaces& where) {
  const DemoRun run = normal(asked);
  const DemoPlaces places = found(where);
  const fs::path prompt = prompt_file(run, places);
  std::error_code error;
  if (!fs::is_regular_file(prompt, error)) {
    throw FileError(prompt.string(),
                    "no such prompt; choose a file in " + prompt.parent_path().string());
  }
  fs::path target = trace_file(run, places);
  window::CaptureOptions options;
  options.program = places.program;
  options.model = (places.assets / "demo-model").string();
  options.block = run.block;
  options.output = target.string();
  if (run.policy.empty()) {
    if (is_fresh(target, sources_of(run, places))) return target;
    make_folder(places.cache);
    options.file = prompt.string();
    options.generate = run.generate;
    capture(options, progress);
    CacheFolder(places.cache).keep_below(cache_limit(), {target});
    return target;
  }
  constexpr long kHalf = 1000;
  progress.set_total(2 * kHalf);
  DemoRun full = run;
  full.policy.clear();
  full.own_words = false;
  Progress of_full(progress, kHalf);
  const fs::path full_trace = demo_trace(full, of_full, places);
  of_full.finish();
  std::vector<fs::path> sources = sources_of(run, places);
  sources.push_back(full_trace);
  if (is_fresh(target, sources)) return target;
  if (run.own_words) {
    options.file = prompt.string();
    options.generate = run.generate;
  } else {
    options.prompt = window::CaptureOptions::Prompt::trace;
    options.from = full_trace.string();
  }
  options.policy = with_segments(run.policy, Trace(full_trace).tokens());
  options.budget = run.budget;
  Progress of_closed(progress, kHalf);
  capture(options, of_closed);
  CacheFolder(places.cache).keep_below(cache_limit(), {full_trace, target});
  return target;
}

}  // namespace kvloupe::demo

#include "app/job/eval_case_job.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/policy/policy_files.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/sha256.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "app/job/assets.h"
#include "app/job/capture_job.h"

namespace kvloupe::job {

namespace {
namespace fs = std::filesystem;

/// With its weights: a new run writes them where they are gone.
bool is_readable_trace(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  try {
    const Trace trace(path);
    return missing_weights(trace).empty();
  } catch (const std::exception&) {
    return false;
  }
}

/// The options of the capture that makes a run's trace, with the trace's path.
window::CaptureOptions options_of(const EvalCaseOptions& o, const std::string& policy) {
  window::CaptureOptions options;
  options.model = o.model;
  options.policy = policy;
  options.program = o.program;
  options.shared_weights = true;
  options.output = case_trace(o, policy).string();
  return options;
}

fs::path capture(const window::CaptureOptions& options, Progress& progress) {
  if (is_readable_trace(options.output)) return options.output;
  int done = 0;
  window::run_capture_program(options, progress, [&](const window::CaptureState& state) {
    progress.set_total(2L * state.total);
    progress.advance(state.done - done);
    done = state.done;
  });
  return options.output;
}

/// The run with the full cache.
window::CaptureOptions full_options(const EvalCaseOptions& options) {
  window::CaptureOptions full = options_of(options, kFullCache);
  full.prompt = window::CaptureOptions::Prompt::results;
  full.file = options.results.string();
  full.row = options.row;
  full.block = 0;
  full.generate = 0;
  return full;
}
}  // namespace

fs::path case_trace(const EvalCaseOptions& o, const std::string& policy) {
  std::vector<std::string> parts = {o.prompt, o.compact ? "compact" : "original", policy};
  if (policy != kFullCache) {
    parts.insert(parts.end(), {o.budget, o.context_only ? "context-only" : "regular",
                               policy_files(parse_policy(policy))});
  }
  Sha256 key;
  for (const std::string& part : parts) {
    key.add(static_cast<std::uint64_t>(part.size()));
    key.add(part);
  }
  constexpr std::size_t kDigits = 16;
  return o.folder / fmt::format("{}-{}-{}.h5", file_word(fs::path(o.model).stem().string()),
                                file_word(policy), key.hex().substr(0, kDigits));
}

EvalCaseForecast foresee_eval_case(const EvalCaseOptions& options, Progress& progress) {
  const window::CaptureOptions full = full_options(options);
  EvalCaseForecast forecast{.each = window::foresee_capture(full, progress)};
  if (!is_readable_trace(full.output)) ++forecast.traces;
  if (options.policy != kFullCache &&
      !is_readable_trace(options_of(options, options.policy).output))
    ++forecast.traces;
  return forecast;
}

EvalCaseTraces capture_eval_case(const EvalCaseOptions& options, Progress& progress) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) {
    throw FileError(options.folder.string(), "cannot be made (" + error.message() +
                                                 "); set XDG_CACHE_HOME to a folder of yours");
  }
  EvalCaseTraces traces;
  const window::CaptureOptions full = full_options(options);
  traces.full = capture(full, progress);
  const CacheFolder cache(options.folder.parent_path());
  if (options.policy == kFullCache) {
    cache.keep_below(cache_limit(), {traces.full});
    return traces;
  }
  const Trace made(traces.full);
  window::CaptureOptions closed = options_of(options, options.policy);
  closed.prompt = window::CaptureOptions::Prompt::trace;
  closed.from = traces.full.string();
  closed.block = made.run().block_size;
  closed.dtype = made.run().dtype;
  closed.budget = options.budget;
  closed.compact = options.compact;
  closed.context_only = options.context_only;
  traces.closed = capture(closed, progress);
  cache.keep_below(cache_limit(), {traces.full, traces.closed});
  return traces;
}

std::vector<std::string> rescue_command(const RescueOptions& o, const std::string& program) {
  std::vector<std::string> words = {program,     "rescue",  "--model",    o.model,
                                    "--results", o.results, "--row",      std::to_string(o.row),
                                    "--output",  o.output,  "--progress", "json"};
  if (o.all) words.emplace_back("--all");
  return words;
}

void run_rescue_program(const RescueOptions& options, Progress& progress,
                        const std::function<void(const RescueProgress&)>& on_run) {
  int runs = 0;
  run_own_program(rescue_command(options, own_program(options.program)), progress,
                  [&](const std::string& line) {
                    const auto json = nlohmann::json::parse(line, nullptr, false);
                    if (!json.is_object() || json.value("event", nlohmann::json()) != "run") return;
                    const auto number = [&](const char* name) {
                      const auto found = json.find(name);
                      return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
                    };
                    ++runs;
                    on_run({std::max(runs, static_cast<int>(number("run"))),
                            static_cast<int>(number("most")), number("seconds_left")});
                  });
}

}  // namespace kvloupe::job

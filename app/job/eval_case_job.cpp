#include "app/job/eval_case_job.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <system_error>

#include "analysis/error.h"
#include "analysis/file_word.h"
#include "analysis/policy/policy_files.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
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
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}{}", o.results.string(), o.results_identity, o.row, policy,
                  o.budget, o.compact, o.model, policy_files(parse_policy(policy)));
  window::CaptureOptions options;
  options.model = o.model;
  options.policy = policy;
  options.program = o.program;
  options.shared_weights = true;
  options.output =
      (o.folder / fmt::format("{}-{}-{}-{:016x}.h5", file_word(o.results.stem().string()), o.row,
                              file_word(policy), std::hash<std::string>()(key)))
          .string();
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
}  // namespace

EvalCaseForecast foresee_eval_case(const EvalCaseOptions& options, Progress& progress) {
  window::CaptureOptions full = options_of(options, kFullCache);
  full.prompt = window::CaptureOptions::Prompt::results;
  full.file = options.results.string();
  full.row = options.row;
  full.block = 0;
  full.generate = 0;
  EvalCaseForecast forecast;
  forecast.each = window::foresee_capture(full, progress);
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
  window::CaptureOptions full = options_of(options, kFullCache);
  full.prompt = window::CaptureOptions::Prompt::results;
  full.file = options.results.string();
  full.row = options.row;
  full.block = 0;
  full.generate = 0;
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

}  // namespace kvloupe::job

#include "app/job/eval_case_job.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <system_error>

#include "analysis/error.h"
#include "analysis/file_word.h"
#include "analysis/trace/trace.h"
#include "app/job/capture_job.h"

namespace kvloupe::job {

namespace {
namespace fs = std::filesystem;

bool is_readable_trace(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  try {
    const Trace trace(path);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

fs::path capture(const EvalCaseOptions& o, const std::string& policy, Progress& progress) {
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}", o.results.string(), o.results_identity, o.row, policy,
                  o.budget, o.compact, o.model);
  const fs::path target =
      o.folder / fmt::format("{}-{}-{}-{:016x}.h5", file_word(o.results.stem().string()), o.row,
                             file_word(policy), std::hash<std::string>()(key));
  if (is_readable_trace(target)) return target;
  window::CaptureOptions options;
  options.model = o.model;
  options.prompt = window::CaptureOptions::Prompt::results;
  options.file = o.results.string();
  options.row = o.row;
  options.block = 0;
  options.generate = 0;
  options.policy = policy;
  options.budget = policy == kFullCache ? "" : o.budget;
  options.compact = o.compact && policy != kFullCache;
  options.output = target.string();
  options.program = o.program;
  int done = 0;
  window::run_capture_program(options, progress, [&](const window::CaptureState& state) {
    progress.set_total(2L * state.total);
    progress.advance(state.done - done);
    done = state.done;
  });
  return target;
}
}  // namespace

EvalCaseTraces capture_eval_case(const EvalCaseOptions& options, Progress& progress) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) {
    throw FileError(options.folder.string(), "cannot be made (" + error.message() +
                                                 "); set XDG_CACHE_HOME to a folder of yours");
  }
  EvalCaseTraces traces;
  traces.full = capture(options, kFullCache, progress);
  if (options.policy != kFullCache) traces.closed = capture(options, options.policy, progress);
  return traces;
}

}  // namespace kvloupe::job

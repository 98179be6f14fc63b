#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "capture/eval/runs_forecast.h"
#include "capture/run/capture.h"

namespace kvloupe {

/// How a verb reports to the program or person that started it.
class ProgressReport : public CaptureObserver {
 public:
  /// The trace is complete. Failures are not reported here but on stderr, with the exit code.
  virtual void on_done(const std::filesystem::path& trace, const CaptureSummary& summary) = 0;
  /// A run of an evaluation or a search is done: a line for a person, `done` of `total` in front,
  /// and the members of the event for a program.
  virtual void on_run(const std::string& line, const nlohmann::ordered_json& members) = 0;
  /// The work's results for a person go to stdout.
  virtual bool prints_results() const { return false; }
  /// Removes the bar.
  virtual void clear() {}
};

/// "bar": a bar with tokens/s and the time left on stderr if that is a terminal, notes on stderr,
/// the outcome on stdout. "none": notes on stderr alone, without the trace's size.
///
/// "json": one object per line on stdout, each with the field "event":
///   {"event":"size","bytes":152000000,"states":115000000,"attention":0,
///    "output_projections":20000000,"output_head":0,"other":17000000,"text":"..."}
///       what the trace will take, before the model is loaded.
///   {"event":"tokens","done":256,"prompt_length":500,"total":532,
///    "tokens_per_second":4100.0,"seconds_left":0.1}
///       `done` of at most `total` tokens have been run, the first prompt_length of them in blocks.
///       tokens_per_second is of the present phase (prompt or generation); seconds_left is null
///       until it can be told. At most ten a second, and at the end of the prompt and of the run.
///   {"event":"note","text":"..."}
///   {"event":"done","trace":"demo.h5","prompt_length":500,"generated":32,"given":0,
///    "seconds":1.2,"prompt_tokens_per_second":4100.0,"generated_text":"...","own_answer":""}
///       the last line of a run that succeeded; one that failed has none.
///   {"event":"run", ...}
///       a run of an evaluation: "done", "total", "run" as its results have it; of a search:
///       "policy", "right", "logprob", "run" (its number), "most", "seconds_left".
///
/// Throws UsageError for another kind.
std::unique_ptr<ProgressReport> make_progress_report(const std::string& kind);

/// Prints the forecast of `--dry-run` for an evaluation or a search: one object with "event"
/// "forecast" for --progress json, else lines. `most`: the search may need fewer runs.
void print_forecast(const RunsForecast& forecast, const std::filesystem::path& results, bool most,
                    const std::string& progress);

}  // namespace kvloupe

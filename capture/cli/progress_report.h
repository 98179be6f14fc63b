#pragma once

#include <filesystem>
#include <memory>

#include "capture/run/capture.h"

namespace kvloupe {

/// How a run reports to the program or person that started it.
class ProgressReport : public CaptureObserver {
 public:
  /// The trace is complete. Failures are not reported here but on stderr, with the exit code.
  virtual void on_done(const std::filesystem::path& trace, const CaptureSummary& summary) = 0;
};

/// "bar": a bar with tokens/s and the time left on stderr where that is a terminal, notes on
/// stderr, the outcome on stdout. "none": notes on stderr alone, without the trace's size.
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
///   {"event":"done","trace":"demo.h5","prompt_length":500,"generated":32,"seconds":1.2,
///    "prompt_tokens_per_second":4100.0,"generated_text":"..."}
///       the last line of a run that succeeded; one that failed has none.
///
/// Throws UsageError for another kind.
std::unique_ptr<ProgressReport> make_progress_report(const std::string& kind);

}  // namespace kvloupe

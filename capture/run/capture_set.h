#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "analysis/study/prompt_set.h"
#include "capture/run/capture.h"
#include "capture/tokenizer/prompt.h"

namespace kvloupe {

/// A prompt of a set: a prompt file with its segments, or a line of JSON lines; fields of it that
/// are not read are noted. Throws FileError as
/// read_prompt() and read_prompt_line() do.
Prompt read_set_prompt(const PromptPlace& place);

/// One run of `kvloupe-capture run --prompt-set`.
struct CaptureSetRequest {
  CaptureRequest each;           // of every prompt; without a prompt and a target of its own
  std::filesystem::path set;     // as find_prompts() takes it
  std::filesystem::path folder;  // for the traces; made where it is missing
};

struct CaptureSetReport {
  /// A trace is complete; `done` of `total`, those that were there before included.
  std::function<void(const std::filesystem::path& trace, const CaptureSummary&, int done,
                     int total)>
      done;
  /// Something about the prompts that the caller should know, once.
  std::function<void(const std::string& note)> note;
  /// Traces that were there before, and are left as they are.
  std::function<void(int traces)> found;
};

/// Captures every prompt of a set, with the model loaded once, into traces called after the
/// prompts: NAME.h5, of JSON lines NAME-LINE.h5. A trace that is there already is left, so that the
/// same command goes on after a stop. Throws as find_prompts(), read_set_prompt() and run_capture()
/// do, and FileError where two prompts have the same name, or a trace there is of another prompt,
/// model or run.
void run_capture_set(const CaptureSetRequest& request, Progress& progress,
                     CaptureObserver& observer, const CaptureSetReport& report);

}  // namespace kvloupe

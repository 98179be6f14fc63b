#pragma once
// A study: one policy question on many traces, as a file says it (docs/studies.md).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/policy/spec.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// What the results of a study keep of each replay, beside one value per measure: the mean over its
/// heads.
enum class Reduce {
  none,   // a value per head and step
  steps,  // a value per head
  heads,  // a value per step: the mean over the heads
  all     // nothing more
};
/// "none", "steps", "heads", "all".
const char* reduce_name(Reduce reduce);

/// A trace of a study.
struct StudyTrace {
  std::string name;            // as the file says it, from the file's folder
  std::filesystem::path path;  // to open it
};

/// What a study file says, checked.
struct Study {
  std::filesystem::path path;
  std::vector<StudyTrace> traces;  // in the file's order, those of a glob by name; none twice
  std::vector<PolicySpec> policies;
  std::vector<Budget> budgets;
  std::vector<int> blocks = {0};                // tokens, or kWholePrompt; 0: the capture's
  std::optional<Compression> compression = {};  // none: the capture's
  std::vector<std::string> measures;
  Reduce reduce = Reduce::steps;
};

/// A block size in words: "128", "all", or "capture" for 0.
std::string block_text(int block);

/// Reads a study file, and finds its traces without opening them. Throws FileError: missing, too
/// large, not JSON, a field that is unknown, missing or of another kind, a wrong policy, budget,
/// block or measure, a value that is there twice, a trace that is missing, a glob without a match.
Study read_study(const std::filesystem::path& path);

}  // namespace kvloupe

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "capture/eval/runs_forecast.h"
#include "capture/model/model_choice.h"
#include "capture/run/probe_kind.h"

namespace kvloupe {

/// A request of `kvloupe-capture eval`. Every policy runs in the model's own cache.
struct EvalRequest {
  ModelChoice model = {};
  std::string output = {};  // JSON; of a name that ends in .sqlite: the results of a study
  Evaluation::Task task = Evaluation::Task::needle;  // or perplexity
  std::vector<PolicySpec> policies = {};
  std::vector<Budget> budgets = {};  // shares are of the prompt
  std::vector<int> lengths = {};     // tokens of a prompt
  std::vector<double> depths = {};   // percent; needles only
  int needles = 1;
  int samples = 1;
  std::uint64_t seed = 1;
  Compression compression = Compression::regular;
  Positions positions = Positions::original;
  /// Default: MODEL/needle.json, else general.
  std::optional<std::filesystem::path> needle_template = {};
  std::optional<std::filesystem::path> filler = {};  // a prompt file, instead of the template's
  int block = 128;
  /// How the context is read a second time for policies that need that (kvzip, kvcompose).
  std::optional<ProbeKind> probe = {};  // without a value: repeat
  std::string dtype = "auto";
  std::string device = "cpu";
  int threads = 0;
  /// Bytes reserved for the full cache's run of a text, with which perplexity compares the others.
  std::int64_t most_reference = std::int64_t{1} << 30;
  /// Bytes reserved for the blocks that runs share until the policy's first eviction; 0: each run
  /// computes its own.
  std::int64_t most_shared = std::int64_t{1} << 30;
};

/// Reports of an evaluation during its work.
struct EvalReport {
  std::function<void(const std::string&)> note;  // a line a person should read
  /// A run is done: `done` of `total`, including those that were already in the file.
  std::function<void(long done, long total, const EvaluationRun& run)> run;
};

/// Makes the runs that are missing in the results file, as a study of one task; JSON is saved after
/// each prompt. The full cache is always among the policies. Returns the results. Throws
/// UsageError, FileError, WorkError, and Cancelled through progress; the runs made until then are
/// in the file.
Evaluation evaluate(const EvalRequest& request, Progress& progress, const EvalReport& report);

/// Foresees the runs without loading the model. Throws as evaluate() does before it loads the
/// model, and Cancelled through progress.
RunsForecast forecast_evaluation(const EvalRequest& request, Progress& progress);

}  // namespace kvloupe

#pragma once
// Which heads' loss of some tokens makes an answer wrong, proved by running the model: with the
// tokens kept in all heads, in one layer, in one head; and with them dropped from the full cache.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/evaluation/rescue_results.h"
#include "analysis/policy/kit/spec.h"
#include "capture/eval/runs_forecast.h"
#include "capture/model/model_choice.h"
#include "capture/run/probe_kind.h"
#include "capture/tokenizer/prompt.h"

namespace kvloupe {

/// A request of `kvloupe-capture rescue`. Exactly one of prompt, trace and sequence is given.
struct RescueRequest {
  ModelChoice model;
  std::optional<std::filesystem::path> prompt;
  std::optional<std::filesystem::path> trace;  // of a run with the full cache: its prompt is run
  std::optional<TokenSequence> sequence;       // a prompt that is tokens already
  std::string sequence_name;                   // of that, for the results
  PolicySpec policy;
  Budget budget;
  std::string tokens = "auto";        // as named_tokens() reads it: a list, a segment, or auto
  std::optional<std::string> expect;  // the right continuation; default: the full cache's own
  std::optional<std::string> number;  // or: what the full cache says, up to this first number
  std::vector<std::string> answers;   // or: what it says, up to one of these
  bool no_loop = false;   // or: what it says, and a run is right if its own text has no loop
  int answer_tokens = 4;  // of the answer, without `expect`
  std::string output;
  int block = 128;
  /// How the context is read a second time, for a policy that needs that: repeat where not said.
  /// For a trace: the trace's own.
  std::optional<ProbeKind> probe;
  std::string dtype = "auto";
  std::string device = "cpu";
  int threads = 0;
  /// Runs of the model at most; 0: as many as it takes to have every layer and head alone, as with
  /// `all`. Not set: so many for a model of few layers and heads, else 80.
  std::optional<int> most_runs;
  /// Only the effect of each head's loss on the full cache's answer: the tokens are dropped in each
  /// head alone. No set is looked for, and no head is kept alone.
  bool leave_one_out = false;
  /// Goes on to look for sets and to run heads alone where keeping the tokens in all heads does not
  /// make a wrong answer right; else such a search ends with the heads that named_heads() names.
  bool all = false;
  /// Bytes reserved for the blocks of the full cache's run, which others take over until they
  /// differ; 0: each run computes its own.
  std::int64_t most_shared = std::int64_t{1} << 30;
};

/// A run that was made.
struct RescueRun {
  std::string policy;
  bool right = false;         // the answer
  double logprob = 0.0;       // of the expected answer, nats
  int number = 0, most = 0;   // the how manyth run it is, those of the file counted; of at most
  double seconds_left = 0.0;  // if all of these are needed
};

struct RescueReport {
  std::function<void(const std::string&)> note;
  std::function<void(const RescueRun&)> run;
};

/// Makes the runs that are missing in the results file, which is saved after each, and returns its
/// content (docs/follow.md). Effects are of the places that were run alone: the gain is over the
/// policy's run (keep), or over the full cache's (drop; below 0 where the loss hurts). The smallest
/// set is missing where the tokens are not what the answer depends on; if it is minimal, no single
/// head can be left out of it; another, smaller set is not excluded.
///
/// Throws UsageError, FileError, WorkError (the full cache's answer is not the expected one), and
/// Cancelled through progress; the runs made until then are in the file.
RescueResults rescue(const RescueRequest& request, Progress& progress, const RescueReport& report);

/// Foresees the search without loading the model. Throws as rescue() does before it loads the
/// model, and Cancelled through progress.
RunsForecast forecast_rescue(const RescueRequest& request, Progress& progress,
                             const RescueReport& report);

}  // namespace kvloupe

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/math/sink.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/trace/trace_probe.h"
#include "capture/eval/eval_run.h"
#include "capture/eval/rescue.h"
#include "capture/model/model_config.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The input of a rescue: a prompt, the tokens that are kept or dropped, and the right answer.
struct RescuePrompt {
  std::string name;                // for the results
  std::vector<std::int32_t> ids;   // [T]
  std::vector<int> tokens;         // to rescue, ascending
  TokenSequence sequence;          // the prompt with its segments; of a trace, empty
  std::optional<ProbeInfo> probe;  // of a policy that reads the context a second time
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::int32_t> expected;  // of --expect; empty: what the full cache says

  int length() const { return static_cast<int>(ids.size()); }
  std::string text_of(const std::vector<std::int32_t>& some) const;
};

/// Reads the prompt, trace or sequence of a request. Throws UsageError for tokens that are not in
/// the prompt, an expected text without tokens, and a block that a second reading does not allow;
/// FileError.
RescuePrompt read_rescue_prompt(const RescueRequest& request, const ModelConfig& config,
                                const RescueReport& report);

/// The model's runs of one prompt, each with tokens kept or dropped in some heads. What was run
/// before is in the results, which are saved after each new run. What it is given must outlive it.
class RescueRuns {
 public:
  /// `results`: settings and the runs so far. `device` and `type`: of the model.
  RescueRuns(const RescueRequest& request, const RescuePrompt& prompt, const ModelConfig& config,
             const ModelInfo& info, at::Device device, at::ScalarType type, Progress& progress,
             const RescueReport& report, RescueResults& results);

  const RescueRequest& request() const { return request_; }
  int layers() const { return static_cast<int>(info_.num_layers); }
  int heads() const { return static_cast<int>(info_.num_kv_heads); }  // of a layer
  std::vector<HeadIndex> heads_of_layer(int layer) const;
  std::vector<HeadIndex> all_heads() const;

  /// Runs the full cache and keeps its blocks for the others: what it says.
  std::vector<std::int32_t> record_full();
  /// The model's own text with a policy.
  std::vector<std::int32_t> greedy(const std::string& spec) const;
  /// From now on, the tokens that are right.
  void expect(const std::vector<std::int32_t>& ids) { expected_ = ids; }
  /// From the results, or from a new run. Throws Cancelled.
  RescueOutcome outcome(const std::string& spec);

  /// Whether layers and heads are all run alone.
  bool exhaustive() const;
  /// Whether `spec` has been asked for, or one more run may be made.
  bool may_ask(const std::string& spec) const;

 private:
  int most_runs() const;  // those of the file included
  EvalRun start(const std::string& spec) const;
  std::vector<std::int32_t> says(EvalRun& run) const;

  const RescueRequest& request_;
  const RescuePrompt& prompt_;
  const ModelConfig& config_;
  const ModelInfo& info_;
  Progress& progress_;
  const RescueReport& report_;
  RescueResults& results_;
  std::unique_ptr<Transformer> model_;
  Recording recording_;
  std::optional<ModelProbe> states_;  // of the second reading, once it is read
  std::optional<SequenceTables> twice_;
  std::vector<std::int32_t> expected_;
  std::set<std::string> asked_;  // specs of runs
  int made_ = 0;                 // of them, by this process
  double seconds_ = 0.0;         // that these took
};

/// Whether a search runs all layers and heads alone, and the runs that it makes at most, those of
/// the file included.
bool runs_all_alone(const RescueRequest& request, const ModelInfo& info);
int most_rescue_runs(const RescueRequest& request, const ModelInfo& info);

/// The policy with these tokens kept in these heads; without heads: in all. Throws UsageError where
/// it keeps tokens already.
std::string spec_keeping(const PolicySpec& policy, const std::vector<int>& tokens,
                         const std::vector<HeadIndex>& heads = {});
/// The full cache with these tokens dropped.
std::string spec_dropping(const std::vector<int>& tokens, const std::vector<HeadIndex>& heads = {});

}  // namespace kvloupe

#pragma once
// The runs of one prompt with several policies in the model's own cache, which share what they have
// in common: what `kvloupe-capture eval` and `kvloupe-capture study` measure.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/cache/evicting_layer.h"
#include "capture/eval/eval_run.h"
#include "capture/eval/haystack.h"
#include "capture/model/model_config.h"
#include "capture/model/transformer.h"
#include "capture/run/probe.h"
#include "capture/run/token_facts.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The outputs of each layer of a model for some tokens of a sequence, in the model's dtype and in
/// main memory.
class HiddenStates {
 public:
  /// For `count` tokens from `first` on.
  HiddenStates(const Transformer& model, int first, int count);
  /// Their size in bytes.
  static std::int64_t bytes(const Transformer& model, int count);

  /// Keeps a layer's output, hidden [1,m,D], for the tokens from `first` on; tokens outside its own
  /// range are ignored.
  void keep(int layer, int first, const at::Tensor& hidden);

  int first() const { return first_; }
  int count() const { return static_cast<int>(states_.size(1)); }
  /// For m tokens from `first` on, all in its own range: [m,D].
  at::Tensor rows(int layer, int first, int m) const;

 private:
  int first_;
  at::Tensor states_;  // [L,count,D]
};

/// How far a run's hidden states h′ are from those of the full cache's run of the same tokens, h
/// (after CriticalKV, figure 6), after each layer and after the last norm (the input of the output
/// head). Per token: ‖h′ − h‖₂ / ‖h‖₂ and 1 − cos(h′, h), in double precision.
class HiddenDrift {
 public:
  /// Both must outlive it.
  HiddenDrift(const Transformer& model, const HiddenStates& full);

  /// Compares a layer's output, hidden [1,m,D], for the tokens from `first` on; tokens outside the
  /// full run's range are ignored.
  void add(int layer, int first, const at::Tensor& hidden);

  /// Writes the means over the full run's tokens into the run's hidden states' distances, with six
  /// significant digits; tokens that were never added count as equal.
  void enter_means(EvaluationRun& run) const;

 private:
  struct Sums {
    double distance = 0.0, cosine = 0.0;
    void add(const at::Tensor& other, const at::Tensor& full);  // [m,D] each
  };
  const Transformer& model_;
  const HiddenStates& full_;
  std::vector<Sums> layers_;  // [L]
  Sums normed_;
};

/// The loss of a text with the full cache, and how far other runs of the same text differ.
class Perplexity {
 public:
  /// Reads the text [T] with a new run with the full cache. Keeps its distributions and hidden
  /// states for comparisons if they fit in `room` bytes, the distributions first; reports through
  /// `note` what does not fit. `ids` must outlive it. Throws Cancelled through progress.
  Perplexity(EvalRun full, std::span<const std::int32_t> ids, std::int64_t room,
             const Progress& progress, const std::function<void(const std::string&)>& note);

  /// Mean −log p of tokens 1 onwards, in nats.
  double loss() const;

  /// Reads the text with a new run that evicts, and enters loss and loss_difference. If the full
  /// cache's distributions were kept: kl, the mean over the tokens of Σ p_full (log p_full − log
  /// p), and same_top1, the share of equal most probable tokens. If its hidden states were kept:
  /// HiddenDrift::enter_means() over all tokens. Throws Cancelled.
  void compare(EvalRun run, const Progress& progress, EvaluationRun& result) const;

 private:
  /// Writes −log p of the tokens that follow those of `rows`, [m,vocab]; the rows begin at token
  /// `first`.
  void enter_losses(const at::Tensor& rows, int first, std::vector<double>& losses) const;

  std::span<const std::int32_t> ids_;  // [T]
  std::vector<double> losses_;         // [T−1]
  at::Tensor log_probabilities_;       // float32 [T,vocab], if they fit
  std::optional<HiddenStates> hidden_;
};

/// A policy at a budget as written; the full cache has no budget.
struct EvalSetting {
  PolicySpec policy;
  std::optional<Budget> budget;
  std::optional<ProbeKind> probe = {};  // of a policy that needs the context read a second time

  /// A run of it, of which only policy, budget, policy_files and probe are known.
  EvaluationRun named_run() const;
  int entries(int prompt_length) const;  // of the full cache: the whole prompt
  static EvalSetting full_cache();
  /// As an item of a study has it; `probe`: for a policy that needs one.
  static EvalSetting of(const std::string& policy, const std::string& budget,
                        const std::string& probe);
};

/// A model and what its runs have in common. What it points to must outlive the runs.
struct RunningModel {
  std::filesystem::path folder;
  const ModelConfig* config = nullptr;
  const ModelInfo* info = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const Transformer* transformer = nullptr;
  int block = 128;  // kWholePrompt: the prompt as one block
  Positions positions = Positions::original;
  /// Bytes reserved for blocks that runs share until the first eviction, and for what perplexity
  /// compares with.
  std::int64_t most_shared = std::int64_t{1} << 30;
  std::int64_t most_reference = std::int64_t{1} << 30;
  /// How the full cache's run reads its context a second time, where it is known that a policy will
  /// need that; for others a second such run is made.
  std::optional<ProbeKind> probe = {};
};

/// The runs of one prompt with a known answer, or of one context with several questions, which is
/// then read and compressed once for each setting. The full cache's run is made at the beginning,
/// since the others are compared with it.
class NeedleRuns {
 public:
  /// `tasks`: the prompt, or a prompt for each question. These begin with the same tokens: the
  /// context where only that is compressed, else the whole first prompt. `most_entries`: the
  /// largest budget of the runs to come. Throws Cancelled through progress, FileError for tokens
  /// that the model does not have.
  NeedleRuns(const RunningModel& model, std::vector<NeedleTask> tasks, int answer_tokens,
             bool context_only, int most_entries, const Progress& progress);

  /// For each question the named run with entries (shares are of the first prompt), tokens,
  /// expected, answer and correct, and with a policy the hidden states' distances at the last
  /// token.
  std::vector<EvaluationRun> run(const EvalSetting& setting, const Progress& progress);

 private:
  struct Answer {
    std::string text;
    double loop_begin = 0.0;  // EvaluationRun::loop_begin
  };
  /// Gets what a HiddenHook gets, and the question to which the tokens belong.
  using QuestionHook =
      std::function<void(std::size_t question, int layer, int first, const at::Tensor& hidden)>;
  std::vector<Answer> answers(const EvalSetting& setting, const Progress& progress,
                              const QuestionHook& on_hidden);
  int tokens(std::size_t question = 0) const {
    return static_cast<int>(tasks_[question].tokens.ids.size());
  }

  /// Reads the context again in a run that holds all of it.
  void read_again(EvalRun& run, ProbeKind kind, const Progress& progress);
  /// The same in a run of its own, if that has not been done.
  void know_probe(ProbeKind kind, const Progress& progress);

  const RunningModel& model_;
  std::vector<NeedleTask> tasks_;
  int answer_tokens_;
  bool context_only_;
  Recording recording_;
  std::optional<ModelProbe> probe_;
  std::optional<SequenceTables> twice_;
  std::vector<HiddenStates> full_;    // of each prompt's last token
  std::vector<Answer> full_answers_;  // to each question
};

/// The runs of one text.
class PerplexityRuns {
 public:
  /// As NeedleRuns; `note` gets a line about what does not fit into memory.
  PerplexityRuns(const RunningModel& model, TokenSequence text, int most_entries,
                 const Progress& progress, const std::function<void(const std::string&)>& note);

  int tokens() const { return static_cast<int>(text_.ids.size()); }
  /// The named run with entries, tokens, and what Perplexity::compare() says; of the full cache:
  /// loss, and a difference of 0.
  EvaluationRun run(const EvalSetting& setting, const Progress& progress);

 private:
  const RunningModel& model_;
  TokenSequence text_;
  StructuralSequence structure_;
  Recording recording_;
  std::optional<Perplexity> full_;
};

}  // namespace kvloupe

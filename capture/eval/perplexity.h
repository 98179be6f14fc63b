#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/eval/eval_run.h"
#include "capture/eval/hidden_drift.h"

namespace kvloupe {

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

}  // namespace kvloupe

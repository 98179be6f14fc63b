#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/output_weight.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_final_norm.h"

namespace kvloupe {

/// The tokens whose logits are asked for: those that occur in the trace, whose rows of the output
/// head are enough, or any of the vocabulary.
enum class LogitsOf { sequence, vocabulary };

/// From a change of the residual stream to a change of the logits: the last norm, linearised where
/// the token's own residual stream stands, then the output head. D hidden size, d head dimension.
///
/// With h = g ⊙ x̂ + b, x̂ = x / r and r = √(mean(x²) + ε) (trace_final_norm.h), a small change δ of
/// x at one token changes
///
///   h by      Δh = g ⊙ (δ − x̂ (x̂·δ) / D) / r     (δ less its mean where the norm is centred),
///   logits by Δh · lm_headᵀ.
///
/// The second term is the change of r. So the change of a logit is linear in δ: changes of several
/// heads and layers add up. Left out: the effect of the layers after the change (the MLP of the
/// same layer and all later layers, at this token and through later tokens), and the norm's
/// curvature for a large δ. Source: the derivative of RMSNorm (Zhang and Sennrich, 2019, eq. 4);
/// the direct effect on a logit is Elhage et al. 2021, "direct logit attribution".
class LogitPath {
 public:
  /// One line that names the parts that the trace lacks for it; empty: nothing.
  static std::string missing(const Trace& trace, LogitsOf tokens = LogitsOf::sequence);

  /// The trace must outlive it. Throws WorkError with missing().
  explicit LogitPath(const Trace& trace, LogitsOf tokens = LogitsOf::sequence);

  /// [D]: Δh at a token whose residual stream changes by `change` [D].
  Eigen::VectorXd head_input_change(int token, const Eigen::VectorXd& change) const;
  /// [D]: the derivative of the logit of `id`, after a token, with respect to the residual stream
  /// there. Its product with a change is the change of this logit.
  Eigen::VectorXd gradient(int token, std::int32_t id) const;
  /// The root mean square of the residual stream at a token, which its changes compare with.
  double rms(int token) const { return norm_.rms(token); }

 private:
  TraceFinalNorm norm_;
};

/// How a change of the output head's input changes the next token's logits.
struct LogitEffect {
  struct Change {
    std::int32_t token = 0;  // of the vocabulary
    double change = 0.0;     // of its logit
  };
  std::vector<Change> up;    // the largest rises, largest first
  std::vector<Change> down;  // the largest falls, most negative first
  double mean = 0.0;         // over the vocabulary: common to all, so it has no effect
  double norm = 0.0;         // ‖Δlogits − mean‖₂ / √vocab
};

/// Δlogits = W_H·Δ (CAOTE eq. 42). `lm_head` [vocab,D], `change` [D]: of the head's input, after
/// the last norm (LogitPath::head_input_change). At most `count` of each sign.
LogitEffect logit_effect(const Matrix& lm_head, const Eigen::VectorXd& change, int count);

}  // namespace kvloupe

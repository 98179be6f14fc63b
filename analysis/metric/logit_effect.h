#pragma once

#include <cstdint>
#include <vector>

#include "analysis/matrix.h"

namespace kvloupe {

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

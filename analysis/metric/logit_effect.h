#pragma once

#include <cstdint>
#include <vector>

#include "analysis/matrix.h"

namespace kvloupe {

/// How a change of a layer's attention output changes the next token's logits, to first order.
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

/// Δlogits ≈ W_H·Δ (CAOTE eq. 42: one layer, later layers and norms ignored). `lm_head` [vocab,D],
/// `change` [D]: o'W_O − oW_O summed over the layer's query heads. At most `count` of each sign.
LogitEffect logit_effect(const Matrix& lm_head, const Eigen::VectorXd& change, int count);

}  // namespace kvloupe

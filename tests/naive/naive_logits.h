#pragma once
// Logits of a residual stream, and how they change with it, in plain double loops.

#include <vector>

namespace kvloupe::naive {

/// The last norm and the output head's row of one token of the vocabulary, [D] each.
struct LogitOf {
  std::vector<double> weight, bias, row;
  bool centred = false;
  double epsilon = 0.0;

  /// Σ_i row_i (weight_i x_i / √(mean(x²) + ε) + bias_i), x less its mean where centred.
  double operator()(const std::vector<double>& x) const;
  /// (logit(x + hδ) − logit(x − hδ)) / 2h for a small h.
  double change(const std::vector<double>& x, const std::vector<double>& delta) const;
};

}  // namespace kvloupe::naive

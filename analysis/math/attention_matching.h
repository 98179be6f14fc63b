#pragma once

#include <span>
#include <vector>

#include <Eigen/Core>

#include "analysis/base/core/matrix.h"
#include "analysis/math/numeric/logit_rule.h"

namespace kvloupe {

/// A number for each entry, larger for those that the queries look at.
enum class KeyMeasure {
  rms,   // root mean square over the queries of its attention
  mean,  // mean
  max    // largest
};

/// The range of the entries' biases, and the method that fits the weights B = exp(bias).
struct BiasFit {
  bool fitted = true;                 // false: biases stay (0 without earlier ones)
  double least = 0.0, largest = 0.0;  // of the bias
  int steps = 0;                      // of projected gradient after least squares were clamped
};

/// Orthogonal matching pursuit.
struct PursuitRule {
  int picks = 0;        // keys to pick, at most n
  int at_once = 1;      // picked for one residual
  int refit_every = 1;  // weights are fitted after every so many rounds
  double drop = 0.0;    // picks with a smaller bias are replaced, up to three times; -inf: none are
  BiasFit bias;
};

/// Entries of a smaller cache.
struct MatchedEntries {
  std::vector<float> biases;  // [t]
  Matrix values;              // [t,d_v]
};

/// Attention Matching (Zweiger et al., 2026, arXiv 2602.16284) of one key-value head: reference
/// queries against the n entries of its cache. E_qj = exp(logit_qj − the largest of the query q),
/// over all entries whether or not q comes before them, as the authors do. E is in float32; least
/// squares are solved in float64 by their normal equations. The ridge, relative to the mean squared
/// length of a column, pulls weights and values to those that the entries have: where queries are
/// few, or hardly look at an entry, it stays as it was.
///
/// Entries that were matched before have a bias. E holds these biases when it computes with all
/// entries; new weights are those of the key alone and take the place of old ones.
class ReferenceAttention {
 public:
  static constexpr double kRidge = 0.01;

  /// queries: for each query head of the group [r_h,d], at least one row in all; rules: theirs.
  /// keys [n,d]; log_sizes [n], or empty: the biases that entries have.
  ReferenceAttention(std::span<const MatrixView> queries, std::span<const LogitRule> rules,
                     const MatrixView& keys, std::span<const float> log_sizes,
                     double ridge = kRidge);

  Eigen::Index queries() const { return exps_.cols(); }
  Eigen::Index entries() const { return exps_.rows(); }

  /// [n]
  std::vector<double> measure(KeyMeasure of) const;
  /// [n], higher = picked earlier: n − k for the k-th pick (from 0), for others less than 1, by
  /// their product with the rest of the queries' sums after the picks. A replaced pick has 0.
  std::vector<double> pursuit(const PursuitRule& rule) const;
  /// Biases and values for the entries at `rows`: min ‖Σ_j E⁰_qj B_j − Σ_i E_qi‖ over the queries,
  /// E⁰ without the biases that the entries have,
  /// then min ‖X C − Y‖, X the attention to the entries with their biases, Y the outputs of all
  /// entries with `values` [n,d_v]; both with the ridge.
  MatchedEntries fit(std::span<const std::int32_t> rows, const MatrixView& values,
                     const BiasFit& bias) const;
  /// The weights alone: [t].
  Eigen::VectorXd weights(std::span<const std::int32_t> rows, const BiasFit& bias) const;

 private:
  /// E of these entries without the biases that they have: [t,r].
  Eigen::MatrixXd chosen(std::span<const std::int32_t> rows) const;
  Eigen::VectorXd weights_of(std::span<const std::int32_t> rows, const Eigen::MatrixXd& columns,
                             const BiasFit& bias) const;

  double ridge_;
  Matrix exps_;            // [n,r], transposed E: an entry's numbers lie side by side
  Eigen::VectorXd held_;   // [n] exp(the biases that entries have), factors of E
  Eigen::VectorXd sums_;   // [r] Σ_j E_qj
  double pull_ = 0.0;      // ridge · mean over all entries of Σ_q E_qj²
  Eigen::VectorXd sinks_;  // [r] exp(sink logit − shift); 0 without
};

}  // namespace kvloupe

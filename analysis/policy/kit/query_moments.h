#pragma once

#include <optional>
#include <vector>

#include <Eigen/Core>

#include "analysis/metric/turned_back.h"
#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// Sums over the queries that a layer has seen, by query head, in double: how many, Σ q, and Σ q qᵀ
/// where asked for. Different key-value heads may be used at the same time.
class QueryMoments {
 public:
  enum class Frame {
    rotated,   // as attention uses them
    unrotated  // before RoPE: the rotation by the token's position is undone
  };
  struct Sums {
    long count = 0;
    Eigen::VectorXd first;   // [d]
    Eigen::MatrixXd second;  // [d,d]; empty unless asked for

    void add(const Eigen::VectorXd& query);
    Eigen::VectorXd mean() const;
    /// Σ (q − μ)(q − μ)ᵀ divided by the count, less `correction`.
    Eigen::MatrixXd covariance(int correction = 0) const;
  };

  /// Queries of tokens before `first_token` are left out. Throws WorkError where the rotation
  /// cannot be undone.
  QueryMoments(const ModelInfo& model, Frame frame, int first_token, bool second);

  /// Adds the step's queries of all query heads of a key-value head. Once per step.
  void observe(const StepView& view, int head);
  const Sums& of(int query_head) const { return sums_[static_cast<std::size_t>(query_head)]; }

 private:
  ModelInfo model_;
  std::optional<TurnedBack> turned_back_;
  int first_token_;
  bool second_;
  std::vector<Sums> sums_;  // [Hq]
};

/// The eigenvector of a symmetric matrix with the largest eigenvalue, of length 1 and of either
/// sign. Computed in double; of the other eigenvectors nothing is computed.
Eigen::VectorXd main_direction(const Eigen::MatrixXd& matrix);

}  // namespace kvloupe

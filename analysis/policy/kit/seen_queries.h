#pragma once

#include <Eigen/Core>

#include <optional>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/math/rope.h"
#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// The last queries of each query head, whatever steps they came in: while a model writes, a step
/// has one query, and a score that looks at a window of them must keep the earlier ones.
class RecentQueries {
 public:
  RecentQueries(const ModelInfo& model, int window);

  /// Call once per step for each head.
  void observe(const StepView& view, int head);
  /// [at most window, d], oldest first, rotated.
  const Matrix& of(int query_head) const { return queries_[static_cast<std::size_t>(query_head)]; }

 private:
  int group_size_;
  int window_;
  std::vector<Matrix> queries_;  // [Hq]
};

/// The queries that a layer has seen, by query head: every 2^k-th token's, so that each key-value
/// head holds at most `most` of them. Different key-value heads may be used at the same time.
class ReferenceQueries {
 public:
  ReferenceQueries(const ModelInfo& model, int most);

  /// Adds the step's queries of all query heads of a key-value head. Once per step.
  void observe(const StepView& view, int head);
  /// The latest of the held queries, this share of them, rounded up: [group] of [r,d], valid until
  /// the next observe() of this head.
  std::vector<MatrixView> of(int head, double share = 1.0) const;
  /// The same for rows that are all known: of these, every 2^k-th.
  void take(int query_head, const Matrix& rows);

 private:
  struct Held {
    int stride = 1;
    int next = 0;   // the index of the next query that is seen
    int count = 0;  // rows of `rows` that are held
    Matrix rows;    // [capacity,d]
  };
  void add(Held& held, const MatrixView& queries) const;

  int group_;
  int most_;  // of a query head
  Eigen::Index width_;
  std::vector<Held> held_;  // [Hq]
};

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

/// a_i ← a_i + Σ_rows A[:,i], mean over the query heads of the group, over all steps since entry i
/// entered. The sum of an evicted entry is dropped; a merged entry has the sum of its members
/// (KeyDiff A.1, CAOTE eq. 28, KVMerger eq. 8). Different heads may be used at the same time.
class AccumulatedAttention {
 public:
  explicit AccumulatedAttention(const ModelInfo& model);

  /// Call once per step, before the sums are read.
  void observe(const StepView& view, int head);
  /// [n]
  const std::vector<double>& of(int head) const { return sums_[static_cast<std::size_t>(head)]; }
  /// Once per step, last.
  void retain(int head, const HeadDecision& decision);

 private:
  ModelInfo model_;
  std::vector<std::vector<double>> sums_;  // [Hk][n]
};

}  // namespace kvloupe

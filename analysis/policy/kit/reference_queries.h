#pragma once

#include <vector>

#include "analysis/matrix.h"
#include "analysis/policy/kit/policy.h"

namespace kvloupe {

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

}  // namespace kvloupe

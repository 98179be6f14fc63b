#pragma once

#include <optional>
#include <span>

#include "analysis/metric/rope.h"
#include "analysis/policy/policy.h"

namespace kvloupe {

/// The keys of one head's cache before RoPE, kept across steps: only new rows are computed.
class UnrotatedKeys {
 public:
  /// Throws WorkError where the rotation cannot be undone.
  explicit UnrotatedKeys(const ModelInfo& model) : rope_(model) {}

  /// Takes up the rows that are new.
  void observe(const CacheView& cache);
  /// [n,d], valid until the next call of this object.
  MatrixView rows() const { return view(rows_); }
  /// Forgets rows that were not kept, and those whose key a merge will change.
  void retain(const HeadDecision& decision);

 private:
  Rope rope_;
  Matrix rows_;
  std::vector<char> known_;  // [n]
};

}  // namespace kvloupe

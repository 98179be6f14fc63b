#include "analysis/policy/kit/reference_queries.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

ReferenceQueries::ReferenceQueries(const ModelInfo& model, int most)
    : group_(model.group_size()),
      most_(std::max(1, most / model.group_size())),
      width_(model.head_dim),
      held_(static_cast<std::size_t>(model.num_heads)) {}

void ReferenceQueries::add(Held& held, const MatrixView& queries) const {
  for (Eigen::Index row = 0; row < queries.rows(); ++row, ++held.next) {
    if (held.next % held.stride != 0) continue;
    if (held.count == most_) {  // every other one goes
      held.count = (held.count + 1) / 2;
      for (int i = 1; i < held.count; ++i) held.rows.row(i) = held.rows.row(2 * i).eval();
      held.stride *= 2;
      if (held.next % held.stride != 0 || held.count == most_) continue;
    }
    if (held.rows.rows() == held.count) {
      held.rows.conservativeResize(std::min(most_, std::max(16, 2 * held.count)), width_);
    }
    held.rows.row(held.count++) = queries.row(row);
  }
}

void ReferenceQueries::observe(const StepView& view, int head) {
  for (int query_head = head * group_; query_head < (head + 1) * group_; ++query_head) {
    const auto index = static_cast<std::size_t>(query_head);
    add(held_[index], view.queries[index]);
  }
}

void ReferenceQueries::take(int query_head, const Matrix& rows) {
  add(held_[static_cast<std::size_t>(query_head)], view(rows));
}

std::vector<MatrixView> ReferenceQueries::of(int head, double share) const {
  std::vector<MatrixView> result;
  for (int query_head = head * group_; query_head < (head + 1) * group_; ++query_head) {
    const Held& held = held_[static_cast<std::size_t>(query_head)];
    const int count = std::min(held.count, static_cast<int>(std::ceil(share * held.count)));
    result.push_back(rows(view(held.rows), held.count - count, count));
  }
  return result;
}

}  // namespace kvloupe

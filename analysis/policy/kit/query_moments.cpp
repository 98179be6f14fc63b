#include "analysis/policy/kit/query_moments.h"

#include <algorithm>

namespace kvloupe {

void QueryMoments::Sums::add(const Eigen::VectorXd& query) {
  ++count;
  first += query;
  if (second.size() > 0) second += query * query.transpose();
}

Eigen::VectorXd QueryMoments::Sums::mean() const {
  return count == 0 ? first : Eigen::VectorXd(first / static_cast<double>(count));
}

Eigen::MatrixXd QueryMoments::Sums::covariance(int correction) const {
  const long divisor = count - correction;
  if (divisor <= 0) return Eigen::MatrixXd::Zero(second.rows(), second.cols());
  return (second - first * first.transpose() / static_cast<double>(count)) /
         static_cast<double>(divisor);
}

QueryMoments::QueryMoments(const ModelInfo& model, Frame frame, int first_token, bool second)
    : model_(model), first_token_(first_token), second_(second) {
  if (frame == Frame::unrotated) turned_back_.emplace(Rope(model));
  Sums none;
  none.first = Eigen::VectorXd::Zero(model.head_dim);
  if (second) none.second = Eigen::MatrixXd::Zero(model.head_dim, model.head_dim);
  sums_.assign(static_cast<std::size_t>(model.num_heads), none);
}

void QueryMoments::observe(const StepView& view, int head) {
  const int skipped = std::clamp(first_token_ - view.block.first, 0, view.block.size());
  if (skipped == view.block.size()) return;
  const int group = model_.group_size();
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    const MatrixView& queries = view.queries[static_cast<std::size_t>(query_head)];
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows =
        queries.bottomRows(queries.rows() - skipped).cast<double>();
    TurnedBack::Cursor cursor;
    for (Eigen::Index row = 0; turned_back_ && row < rows.rows(); ++row) {
      turned_back_->turn(
          std::span<double>(rows.row(row).data(), static_cast<std::size_t>(rows.cols())),
          view.block.first + skipped + row, cursor);
    }
    Sums& sums = sums_[static_cast<std::size_t>(query_head)];
    sums.count += rows.rows();
    sums.first += rows.colwise().sum().transpose();
    if (second_) sums.second.noalias() += rows.transpose() * rows;
  }
}

}  // namespace kvloupe

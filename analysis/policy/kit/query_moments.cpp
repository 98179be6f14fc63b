#include "analysis/policy/kit/query_moments.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <limits>

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

namespace {
constexpr int kMostRounds = 100;

/// The eigenvector of a symmetric tridiagonal matrix for its largest eigenvalue, by inverse
/// iteration: (shift − T) is positive definite for a shift a little above, so no pivots are needed.
/// Not finite if no direction is found.
Eigen::VectorXd of_tridiagonal(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& beside,
                               double largest) {
  const Eigen::Index n = diagonal.size();
  const double size = std::max(diagonal.cwiseAbs().maxCoeff(), beside.cwiseAbs().maxCoeff());
  const double shift = largest + 1e-12 * size;
  Eigen::VectorXd pivots(n), factors(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    pivots[i] = shift - diagonal[i];
    if (i == 0) continue;
    factors[i] = -beside[i - 1] / pivots[i - 1];
    pivots[i] += factors[i] * beside[i - 1];
  }
  Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(n, 1.0, 2.0).normalized();
  for (int round = 0; round < kMostRounds; ++round) {
    Eigen::VectorXd next = x;
    for (Eigen::Index i = 1; i < n; ++i) next[i] -= factors[i] * next[i - 1];
    next[n - 1] /= pivots[n - 1];
    for (Eigen::Index i = n - 1; i-- > 0;) {
      next[i] = next[i] / pivots[i] - factors[i + 1] * next[i + 1];
    }
    next.normalize();
    const double moved = (next - x).norm();
    x = next;
    if (!(moved > 1e-13)) return x;
  }
  return Eigen::VectorXd::Constant(n, std::numeric_limits<double>::quiet_NaN());
}
}  // namespace

Eigen::VectorXd main_direction(const Eigen::MatrixXd& matrix) {
  const Eigen::Index n = matrix.cols();
  if (n > 2 && matrix.cwiseAbs().maxCoeff() > 0.0) {
    const Eigen::Tridiagonalization<Eigen::MatrixXd> simpler(matrix);
    const Eigen::VectorXd diagonal = simpler.diagonal(), beside = simpler.subDiagonal();
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> values;
    values.computeFromTridiagonal(diagonal, beside, Eigen::EigenvaluesOnly);
    Eigen::VectorXd direction = of_tridiagonal(diagonal, beside, values.eigenvalues()[n - 1]);
    if (direction.allFinite()) return simpler.matrixQ() * direction;
  }
  // Two largest eigenvalues that are all but equal, or a small matrix.
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(matrix).eigenvectors().col(n - 1);
}

}  // namespace kvloupe

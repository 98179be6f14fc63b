#include "analysis/policy/kit/seen_queries.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"

namespace kvloupe {

RecentQueries::RecentQueries(const ModelInfo& model, int window)
    : group_size_(model.group_size()),
      window_(window),
      queries_(static_cast<std::size_t>(model.num_heads), Matrix(0, model.head_dim)) {}

void RecentQueries::observe(const StepView& view, int head) {
  for (int query_head = head * group_size_; query_head < (head + 1) * group_size_; ++query_head) {
    const auto index = static_cast<std::size_t>(query_head);
    const MatrixView& added = view.queries[index];
    const Matrix& before = queries_[index];
    const Eigen::Index fresh = std::min<Eigen::Index>(added.rows(), window_);
    const Eigen::Index old = std::min<Eigen::Index>(before.rows(), window_ - fresh);
    Matrix last(old + fresh, added.cols());
    last.topRows(old) = before.bottomRows(old);
    last.bottomRows(fresh) = added.bottomRows(fresh);
    queries_[index] = std::move(last);
  }
}

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

AccumulatedAttention::AccumulatedAttention(const ModelInfo& model)
    : model_(model), sums_(static_cast<std::size_t>(model.num_kv_heads)) {}

void AccumulatedAttention::observe(const StepView& view, int head) {
  std::vector<double>& sums = sums_[static_cast<std::size_t>(head)];
  sums.resize(view.caches[static_cast<std::size_t>(head)].tokens.size(), 0.0);
  const std::vector<double> step =
      group_mean(model_, head, sums.size(), [&](int query_head) -> const std::vector<float>& {
        return view.attention->column_sums(query_head);
      });
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += step[i];
}

void AccumulatedAttention::retain(int head, const HeadDecision& decision) {
  std::vector<double>& sums = sums_[static_cast<std::size_t>(head)];
  for (const Merge& merge : decision.merges) {
    if (merge.key.empty()) continue;  // a value that was given away took no key along
    double together = 0.0;
    for (const int member : merge.from) together += sums[static_cast<std::size_t>(member)];
    sums[static_cast<std::size_t>(merge.into)] = together;
  }
  keep_rows(sums, decision.kept);
}

}  // namespace kvloupe

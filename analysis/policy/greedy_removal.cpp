#include "analysis/policy/greedy_removal.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace kvloupe {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// With D_j = v_j − target, the output's error over a set is r/Z: r = Σ e_i D_i, Z = Σ e_i. Without
/// j it is (r − e_j D_j)/(Z − e_j), so its square needs ‖r‖², r·D_j and ‖D_j‖² only.
class Query {
 public:
  Query(const JudgingQuery& query, const Eigen::MatrixXd& values, const std::vector<char>& present)
      : query_(query), values_(values), present_(present) {
    towards_ = values_ * query_.target;
    length_ = query_.target.squaredNorm();
    squares_.resize(values_.rows());
    for (Eigen::Index i = 0; i < values_.rows(); ++i) squares_[i] = offset(i).squaredNorm();
    sum_anew();
  }

  /// Adds what the error is without each present entry.
  void add_errors(std::vector<double>& errors) const {
    for (std::size_t j = 0; j < errors.size(); ++j) {
      if (present_[j] == 0) continue;
      const auto row = static_cast<Eigen::Index>(j);
      const double e = weights_[row];
      const double rest = mass_ - e;
      if (rest <= 1e-3 * mass_) {
        errors[j] += error_without(row);
        continue;
      }
      errors[j] += (square_ - 2.0 * e * products_[row] + e * e * squares_[row]) / (rest * rest);
    }
  }

  /// After `gone` has left: `similarity` [n] = V·v_gone.
  void remove(Eigen::Index gone, const Eigen::VectorXd& similarity) {
    const double e = weights_[gone];
    weights_[gone] = 0.0;
    mass_ = kept_mass_ + weights_.sum();
    if (mass_ < 1e-3 * mass_when_summed_) {
      sum_anew();
      return;
    }
    residual_ -= e * offset(gone);
    square_ = residual_.squaredNorm();
    // D_gone·D_j = v_gone·v_j − target·v_gone − target·v_j + ‖target‖².
    products_ -= e * (similarity - towards_ -
                      Eigen::VectorXd::Constant(similarity.size(), towards_[gone] - length_));
  }

 private:
  Eigen::VectorXd offset(Eigen::Index row) const {
    return values_.row(row).transpose() - query_.target;
  }

  /// Everything from the entries present, relative to the largest logit among them.
  void sum_anew() {
    const double largest = largest_logit(-1);
    weights_ = Eigen::VectorXd::Zero(values_.rows());
    for (Eigen::Index i = 0; i < values_.rows(); ++i) {
      if (present_[static_cast<std::size_t>(i)] != 0) {
        weights_[i] = std::exp(query_.logits[i] - largest);
      }
    }
    const Eigen::VectorXd kept = (query_.kept_logits.array() - largest).exp();
    kept_mass_ = kept.sum();
    mass_ = mass_when_summed_ = kept_mass_ + weights_.sum();
    residual_ = values_.transpose() * weights_ - weights_.sum() * query_.target;
    if (kept.size() > 0) {
      residual_ += query_.kept_values.transpose() * kept - kept_mass_ * query_.target;
    }
    square_ = residual_.squaredNorm();
    products_ = values_ * residual_;
    products_.array() -= query_.target.dot(residual_);
  }

  double largest_logit(Eigen::Index without) const {
    double largest = -kInfinity;
    for (Eigen::Index i = 0; i < values_.rows(); ++i) {
      if (i != without && present_[static_cast<std::size_t>(i)] != 0) {
        largest = std::max(largest, query_.logits[i]);
      }
    }
    return query_.kept_logits.size() > 0 ? std::max(largest, query_.kept_logits.maxCoeff())
                                         : largest;
  }

  /// Summed over the others: next to nearly all of the mass a difference would cancel.
  double error_without(Eigen::Index without) const {
    const double largest = largest_logit(without);
    if (largest == -kInfinity) return kInfinity;
    double mass = 0.0;
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(values_.cols());
    for (Eigen::Index i = 0; i < values_.rows(); ++i) {
      if (i == without || present_[static_cast<std::size_t>(i)] == 0) continue;
      const double e = std::exp(query_.logits[i] - largest);
      mass += e;
      sum += e * offset(i);
    }
    for (Eigen::Index i = 0; i < query_.kept_logits.size(); ++i) {
      const double e = std::exp(query_.kept_logits[i] - largest);
      mass += e;
      sum += e * (query_.kept_values.row(i).transpose() - query_.target);
    }
    return (sum / mass).squaredNorm();
  }

  const JudgingQuery& query_;
  const Eigen::MatrixXd& values_;
  const std::vector<char>& present_;
  Eigen::VectorXd squares_;   // [n] ‖D_j‖²
  Eigen::VectorXd weights_;   // [n] e; 0 where gone
  Eigen::VectorXd products_;  // [n] r·D_j
  Eigen::VectorXd towards_;   // [n] target·v_j
  Eigen::VectorXd residual_;  // [d] r
  double length_ = 0.0;       // ‖target‖²
  double square_ = 0.0;       // ‖r‖²
  double kept_mass_ = 0.0;
  double mass_ = 0.0;  // Z
  double mass_when_summed_ = 0.0;
};
}  // namespace

std::vector<int> greedy_removal_order(const std::vector<JudgingQuery>& queries,
                                      const Eigen::MatrixXd& values,
                                      const std::vector<bool>& removable) {
  const auto n = static_cast<std::size_t>(values.rows());
  std::vector<char> present(n, 1);
  std::vector<Query> judges;
  judges.reserve(queries.size());
  bool others_stay = !queries.empty();
  for (const JudgingQuery& query : queries) {
    judges.emplace_back(query, values, present);
    others_stay = others_stay && query.kept_logits.size() > 0;
  }
  auto left = static_cast<std::size_t>(std::count(removable.begin(), removable.end(), true));
  if (left == n && !others_stay && left > 0) --left;
  std::vector<int> order;
  std::vector<double> errors(n);
  while (order.size() < left) {
    std::fill(errors.begin(), errors.end(), 0.0);
    for (const Query& judge : judges) judge.add_errors(errors);
    int least = -1;
    for (std::size_t j = 0; j < n; ++j) {
      if (present[j] == 0 || !removable[j]) continue;
      if (least < 0 || errors[j] < errors[static_cast<std::size_t>(least)]) {
        least = static_cast<int>(j);
      }
    }
    order.push_back(least);
    present[static_cast<std::size_t>(least)] = 0;
    const Eigen::VectorXd similarity = values * values.row(least).transpose();
    for (Query& judge : judges) judge.remove(least, similarity);
  }
  return order;
}

}  // namespace kvloupe

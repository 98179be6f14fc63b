#include "analysis/metric/attention_matching.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <Eigen/Cholesky>

namespace kvloupe {

namespace {
constexpr int kPowerSteps = 3;
constexpr int kMostRefinements = 3;

/// min ‖A x − y‖ from AᵀA and Aᵀy, with A's columns scaled to length 1. A column of zeros gets 0.
Eigen::MatrixXd solve_normal(Eigen::MatrixXd gram, const Eigen::MatrixXd& right, double ridge) {
  const Eigen::VectorXd scale = gram.diagonal().unaryExpr(
      [](double square) { return square > 0.0 ? 1.0 / std::sqrt(square) : 0.0; });
  gram = scale.asDiagonal() * gram * scale.asDiagonal();
  for (double add = ridge;; add = std::max(add * 100.0, 1e-12)) {
    Eigen::MatrixXd damped = gram;
    for (Eigen::Index i = 0; i < damped.rows(); ++i) {
      damped(i, i) = (scale[i] > 0.0 ? damped(i, i) : 1.0) + add;
    }
    const Eigen::LLT<Eigen::MatrixXd> factor(damped);
    if (factor.info() != Eigen::Success) continue;
    return scale.asDiagonal() * factor.solve(scale.asDiagonal() * right);
  }
}

Eigen::MatrixXd gram_of(const Eigen::MatrixXd& rows) {
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(rows.rows(), rows.rows());
  gram.selfadjointView<Eigen::Lower>().rankUpdate(rows);
  gram.triangularView<Eigen::StrictlyUpper>() = gram.transpose();
  return gram;
}

Eigen::VectorXd clamped(const Eigen::VectorXd& weights, const BiasFit& bias) {
  return weights.cwiseMax(std::exp(bias.least)).cwiseMin(std::exp(bias.largest));
}

/// The largest eigenvalue of a matrix without negative numbers, nearly: the authors start at a
/// random vector, here all are 1.
double largest_eigenvalue(const Eigen::MatrixXd& gram) {
  Eigen::VectorXd direction = Eigen::VectorXd::Ones(gram.rows()).normalized();
  for (int i = 0; i < kPowerSteps; ++i) {
    const Eigen::VectorXd next = gram * direction;
    if (!(next.norm() > 0.0)) break;
    direction = next.normalized();
  }
  return direction.dot(gram * direction);
}

/// The picks of a pursuit with a Cholesky factor of their Gram matrix, columns of length 1.
class Picks {
 public:
  Picks(const Matrix& exps, const Eigen::VectorXd& sums, int most, double ridge)
      : exps_(exps), sums_(sums), ridge_(ridge), factor_(most, most), right_(most), scale_(most) {}

  const std::vector<std::int32_t>& rows() const { return rows_; }

  void add(std::int32_t row) {
    const auto size = static_cast<Eigen::Index>(rows_.size());
    const Eigen::VectorXd own = exps_.row(row).cast<double>().transpose();
    const double length = own.norm();
    scale_[size] = length > 0.0 ? 1.0 / length : 0.0;
    Eigen::VectorXd products(size);
    for (Eigen::Index i = 0; i < size; ++i) {
      const auto other = rows_[static_cast<std::size_t>(i)];
      products[i] = exps_.row(other).cast<double>().dot(own.transpose()) * scale_[i] * scale_[size];
    }
    if (size > 0) {
      factor_.topLeftCorner(size, size).triangularView<Eigen::Lower>().solveInPlace(products);
      factor_.row(size).head(size) = products.transpose();
    }
    const double left = 1.0 + ridge_ - products.squaredNorm();
    factor_(size, size) = std::sqrt(std::max(left, ridge_ > 0.0 ? ridge_ : 1e-16));
    right_[size] = own.dot(sums_) * scale_[size];
    rows_.push_back(row);
  }

  /// The clamped weights of the picks.
  Eigen::VectorXd weights(const BiasFit& bias) const {
    const auto size = static_cast<Eigen::Index>(rows_.size());
    const auto lower = factor_.topLeftCorner(size, size).triangularView<Eigen::Lower>();
    Eigen::VectorXd solution = lower.solve(right_.head(size));
    lower.adjoint().solveInPlace(solution);
    return clamped(solution.cwiseProduct(scale_.head(size)), bias);
  }

  /// Σ E B over the first picks, as many as there are weights: [r].
  Eigen::VectorXd sum(const Eigen::VectorXd& weights) const {
    Eigen::VectorXd result = Eigen::VectorXd::Zero(exps_.cols());
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
      const auto row = rows_[static_cast<std::size_t>(i)];
      result += weights[i] * exps_.row(row).cast<double>().transpose();
    }
    return result;
  }

 private:
  const Matrix& exps_;
  const Eigen::VectorXd& sums_;
  double ridge_;
  Eigen::MatrixXd factor_;  // [most,most], lower
  Eigen::VectorXd right_, scale_;
  std::vector<std::int32_t> rows_;
};
}  // namespace

ReferenceAttention::ReferenceAttention(std::span<const MatrixView> queries,
                                       std::span<const LogitRule> rules, const MatrixView& keys,
                                       std::span<const float> log_sizes, double ridge)
    : ridge_(ridge) {
  Eigen::Index count = 0;
  for (const MatrixView& head : queries) count += head.rows();
  exps_.resize(keys.rows(), count);
  sums_ = sinks_ = Eigen::VectorXd::Zero(count);
  Eigen::Index first = 0;
  for (std::size_t head = 0; head < queries.size(); ++head) {
    const Eigen::Index own = queries[head].rows();
    auto logits = exps_.middleCols(first, own);
    logits.noalias() = keys * queries[head].transpose();
    to_logits(logits, rules[head]);
    if (!log_sizes.empty()) {
      logits.colwise() += Eigen::Map<const Eigen::VectorXf>(log_sizes.data(), keys.rows());
    }
    Eigen::RowVectorXf shift = logits.row(0);
    for (Eigen::Index j = 1; j < logits.rows(); ++j) shift = shift.cwiseMax(logits.row(j));
    if (rules[head].has_sink()) shift = shift.cwiseMax(static_cast<float>(rules[head].sink));
    for (Eigen::Index j = 0; j < logits.rows(); ++j) {
      logits.row(j) = (logits.row(j) - shift).array().exp().matrix();
      sums_.segment(first, own) += logits.row(j).cast<double>().transpose();
    }
    if (rules[head].has_sink()) {
      sinks_.segment(first, own) =
          (rules[head].sink - shift.cast<double>().array()).exp().matrix().transpose();
    }
    first += own;
  }
}

std::vector<double> ReferenceAttention::measure(KeyMeasure of) const {
  const Eigen::RowVectorXf inverse =
      (sums_ + sinks_).cwiseInverse().cast<float>().transpose();  // of softmax
  std::vector<double> result;
  for (Eigen::Index j = 0; j < exps_.rows(); ++j) {
    const auto attention = exps_.row(j).cwiseProduct(inverse).cast<double>();
    result.push_back(of == KeyMeasure::max ? attention.maxCoeff()
                     : of == KeyMeasure::mean
                         ? attention.mean()
                         : std::sqrt(attention.squaredNorm() / static_cast<double>(queries())));
  }
  return result;
}

std::vector<double> ReferenceAttention::pursuit(const PursuitRule& rule) const {
  enum class State : char { open, picked, dropped };
  const auto n = static_cast<std::size_t>(entries());
  const auto most = std::min(static_cast<std::size_t>(std::max(rule.picks, 0)), n);
  std::vector<State> states(n, State::open);
  auto picks = std::make_unique<Picks>(exps_, sums_, static_cast<int>(most), ridge_);
  Eigen::VectorXd residual = sums_;
  Eigen::VectorXf products;
  const auto look = [&] { products = exps_ * residual.cast<float>(); };
  const auto left = [&] {
    return static_cast<std::size_t>(std::count(states.begin(), states.end(), State::open));
  };
  bool fitted = false;  // whether these picks' weights were fitted before
  for (int round = 0, refinements = 0;; ++round) {
    const std::size_t size = picks->rows().size();
    if (size < most) {
      const std::size_t wanted =
          std::min({static_cast<std::size_t>(rule.at_once), left(), most - size});
      look();
      if (wanted == 0) break;
      std::vector<std::int32_t> open;
      for (std::size_t j = 0; j < n; ++j) {
        if (states[j] == State::open) open.push_back(static_cast<std::int32_t>(j));
      }
      std::partial_sort(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(wanted),
                        open.end(), [&](std::int32_t a, std::int32_t b) {
                          return std::pair(-products[a], a) < std::pair(-products[b], b);
                        });
      for (std::size_t i = 0; i < wanted; ++i) {
        states[static_cast<std::size_t>(open[i])] = State::picked;
        picks->add(open[i]);
      }
      if (fitted && round % rule.refit_every != 0) continue;  // new ones count as nothing till then
      residual = sums_ - picks->sum(picks->weights(rule.bias));
      fitted = true;
      continue;
    }
    if (std::isinf(rule.drop) || ++refinements > kMostRefinements) break;
    const Eigen::VectorXd weights = picks->weights(rule.bias);
    auto stay = std::make_unique<Picks>(exps_, sums_, static_cast<int>(most), ridge_);
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t row = picks->rows()[i];
      if (std::log(weights[static_cast<Eigen::Index>(i)]) < rule.drop) {
        states[static_cast<std::size_t>(row)] = State::dropped;
      } else {
        stay->add(row);
      }
    }
    if (stay->rows().size() == size) break;
    picks = std::move(stay);
    residual = sums_ - picks->sum(picks->weights(rule.bias));
    fitted = false;
  }
  look();
  const double largest = static_cast<double>(products.cwiseAbs().maxCoeff());
  std::vector<double> scores(n, 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    if (states[j] != State::open) continue;
    const double share =
        largest > 0.0 ? static_cast<double>(products[static_cast<Eigen::Index>(j)]) / largest : 0.0;
    scores[j] = 0.5 + 0.4 * share;
  }
  for (std::size_t k = 0; k < picks->rows().size(); ++k) {
    scores[static_cast<std::size_t>(picks->rows()[k])] = static_cast<double>(n - k);
  }
  return scores;
}

Eigen::MatrixXd ReferenceAttention::chosen(std::span<const std::int32_t> rows) const {
  Eigen::MatrixXd result(std::ssize(rows), queries());
  for (Eigen::Index i = 0; i < result.rows(); ++i) {
    result.row(i) = exps_.row(rows[static_cast<std::size_t>(i)]).cast<double>();
  }
  return result;
}

Eigen::VectorXd ReferenceAttention::weights_of(const Eigen::MatrixXd& columns,
                                               const BiasFit& bias) const {
  if (!bias.fitted) return Eigen::VectorXd::Ones(columns.rows());
  const Eigen::MatrixXd gram = gram_of(columns);
  const Eigen::VectorXd right = columns * sums_;
  Eigen::VectorXd weights = clamped(solve_normal(gram, right, ridge_), bias);
  if (bias.steps == 0) return weights;
  const double slope = std::max(largest_eigenvalue(gram), 1e-6);
  for (int step = 0; step < bias.steps; ++step) {
    weights = clamped(weights - (gram * weights - right) / slope, bias);
  }
  return weights;
}

Eigen::VectorXd ReferenceAttention::weights(std::span<const std::int32_t> rows,
                                            const BiasFit& bias) const {
  return weights_of(chosen(rows), bias);
}

MatchedEntries ReferenceAttention::fit(std::span<const std::int32_t> rows, const MatrixView& values,
                                       const BiasFit& bias) const {
  Eigen::MatrixXd attention = chosen(rows);
  const Eigen::VectorXd weights = weights_of(attention, bias);
  attention.array().colwise() *= weights.array();
  const Eigen::RowVectorXd sums = attention.colwise().sum() + sinks_.transpose();
  attention.array().rowwise() /= sums.array();
  Matrix weighted(queries(), values.cols());
  weighted.noalias() = exps_.transpose() * values;
  Eigen::MatrixXd outputs = weighted.cast<double>();
  outputs.array().colwise() /= (sums_ + sinks_).array();
  MatchedEntries result;
  result.values = solve_normal(gram_of(attention), attention * outputs, ridge_).cast<float>();
  for (const double weight : weights) result.biases.push_back(static_cast<float>(std::log(weight)));
  return result;
}

}  // namespace kvloupe

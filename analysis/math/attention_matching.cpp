#include "analysis/math/attention_matching.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <Eigen/Cholesky>

namespace kvloupe {

namespace {
constexpr int kPowerSteps = 3;
constexpr int kMostRefinements = 3;

/// min ‖A x − y‖² + pull ‖x − prior‖² from AᵀA and Aᵀy.
Eigen::MatrixXd solve_normal(const Eigen::MatrixXd& gram, const Eigen::MatrixXd& right,
                             const Eigen::MatrixXd& prior, double pull) {
  const Eigen::MatrixXd left = right - gram * prior;  // of the change from the prior
  const double least = 1e-14 * (gram.trace() + std::numeric_limits<double>::min());
  for (double add = std::max(pull, least);; add *= 100.0) {
    Eigen::MatrixXd damped = gram;
    damped.diagonal().array() += add;
    const Eigen::LLT<Eigen::MatrixXd> factor(damped);
    if (factor.info() == Eigen::Success) return prior + factor.solve(left);
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

/// The picks of a pursuit with a Cholesky factor of their damped Gram matrix. `held`: exp of the
/// biases that the entries have, which are in `exps`, too.
class Picks {
 public:
  Picks(const Matrix& exps, const Eigen::VectorXd& held, const Eigen::VectorXd& sums, int most,
        double pull)
      : exps_(exps), held_(held), sums_(sums), pull_(pull), factor_(most, most), right_(most) {}

  const std::vector<std::int32_t>& rows() const { return rows_; }

  void add(std::int32_t row) {
    const auto size = static_cast<Eigen::Index>(rows_.size());
    const Eigen::VectorXd own = column(row);
    Eigen::VectorXd products(size);
    for (Eigen::Index i = 0; i < size; ++i) {
      const auto other = rows_[static_cast<std::size_t>(i)];
      products[i] = exps_.row(other).cast<double>().dot(own.transpose()) / held_[other];
    }
    if (size > 0) {
      factor_.topLeftCorner(size, size).triangularView<Eigen::Lower>().solveInPlace(products);
      factor_.row(size).head(size) = products.transpose();
    }
    const double square = own.squaredNorm() + pull_;
    factor_(size, size) =
        std::sqrt(std::max(square - products.squaredNorm(), std::max(pull_, 1e-14 * square)));
    right_[size] = own.dot(sums_) + pull_ * held_[row];
    rows_.push_back(row);
  }

  /// The clamped weights of the picks.
  Eigen::VectorXd weights(const BiasFit& bias) const {
    const auto size = static_cast<Eigen::Index>(rows_.size());
    const auto lower = factor_.topLeftCorner(size, size).triangularView<Eigen::Lower>();
    Eigen::VectorXd solution = lower.solve(right_.head(size));
    lower.adjoint().solveInPlace(solution);
    return clamped(solution, bias);
  }

  /// Σ E B over the first picks, as many as there are weights: [r].
  Eigen::VectorXd sum(const Eigen::VectorXd& weights) const {
    Eigen::VectorXd result = Eigen::VectorXd::Zero(exps_.cols());
    for (Eigen::Index i = 0; i < weights.size(); ++i) {
      result += weights[i] * column(rows_[static_cast<std::size_t>(i)]);
    }
    return result;
  }

 private:
  Eigen::VectorXd column(std::int32_t row) const {
    return exps_.row(row).cast<double>().transpose() / held_[row];
  }

  const Matrix& exps_;
  const Eigen::VectorXd& held_;
  const Eigen::VectorXd& sums_;
  double pull_;
  Eigen::MatrixXd factor_;  // [most,most], lower
  Eigen::VectorXd right_;
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
  held_ = Eigen::VectorXd::Ones(keys.rows());
  for (std::size_t j = 0; j < log_sizes.size(); ++j) {
    held_[static_cast<Eigen::Index>(j)] = std::exp(static_cast<double>(log_sizes[j]));
  }
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
  double squares = 0.0;
  for (Eigen::Index j = 0; j < exps_.rows(); ++j) {
    squares += exps_.row(j).cast<double>().squaredNorm();
  }
  pull_ = ridge * squares / static_cast<double>(exps_.rows());
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
  auto picks = std::make_unique<Picks>(exps_, held_, sums_, static_cast<int>(most), pull_);
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
    auto stay = std::make_unique<Picks>(exps_, held_, sums_, static_cast<int>(most), pull_);
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
    const std::int32_t row = rows[static_cast<std::size_t>(i)];
    result.row(i) = exps_.row(row).cast<double>() / held_[row];
  }
  return result;
}

Eigen::VectorXd ReferenceAttention::weights_of(std::span<const std::int32_t> rows,
                                               const Eigen::MatrixXd& columns,
                                               const BiasFit& bias) const {
  Eigen::VectorXd held(std::ssize(rows));
  for (Eigen::Index i = 0; i < held.size(); ++i) {
    held[i] = held_[rows[static_cast<std::size_t>(i)]];
  }
  if (!bias.fitted) return held;
  const Eigen::MatrixXd gram = gram_of(columns);
  const Eigen::VectorXd right = columns * sums_;
  Eigen::VectorXd weights = clamped(solve_normal(gram, right, held, pull_), bias);
  if (bias.steps == 0) return weights;
  const double slope = std::max(largest_eigenvalue(gram), 1e-6);
  for (int step = 0; step < bias.steps; ++step) {
    weights = clamped(weights - (gram * weights - right) / slope, bias);
  }
  return weights;
}

Eigen::VectorXd ReferenceAttention::weights(std::span<const std::int32_t> rows,
                                            const BiasFit& bias) const {
  return weights_of(rows, chosen(rows), bias);
}

MatchedEntries ReferenceAttention::fit(std::span<const std::int32_t> rows, const MatrixView& values,
                                       const BiasFit& bias) const {
  Eigen::MatrixXd attention = chosen(rows);
  const Eigen::VectorXd weights = weights_of(rows, attention, bias);
  attention.array().colwise() *= weights.array();
  const Eigen::RowVectorXd sums = attention.colwise().sum() + sinks_.transpose();
  attention.array().rowwise() /= sums.array();
  Matrix weighted(queries(), values.cols());
  weighted.noalias() = exps_.transpose() * values;
  Eigen::MatrixXd outputs = weighted.cast<double>();
  outputs.array().colwise() /= (sums_ + sinks_).array();
  MatchedEntries result;
  Eigen::MatrixXd own(std::ssize(rows), values.cols());
  for (Eigen::Index i = 0; i < own.rows(); ++i) {
    own.row(i) = values.row(rows[static_cast<std::size_t>(i)]).cast<double>();
  }
  const double pull = ridge_ * attention.squaredNorm() / static_cast<double>(own.rows());
  result.values = solve_normal(gram_of(attention), attention * outputs, own, pull).cast<float>();
  for (const double weight : weights) result.biases.push_back(static_cast<float>(std::log(weight)));
  return result;
}

}  // namespace kvloupe

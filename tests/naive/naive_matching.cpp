// Attention Matching in double precision: §3 of arXiv 2602.16284, read off line by line.

#include <algorithm>
#include <cmath>

#include <Eigen/QR>

#include "tests/naive/naive_matching.h"

namespace kvloupe::naive {

namespace {
double bound(const SpecPart& part, const char* name, double of_auto) {
  const double* given = std::get_if<double>(&part.argument(name));
  return given != nullptr ? *given : of_auto;
}
}  // namespace

MatchingBounds matching_bounds(const SpecPart& part) {
  const bool omp = part.word("keys") == "omp";
  return {std::exp(bound(part, "least", omp ? std::log(1e-12) : -3.0)),
          std::exp(bound(part, "largest", omp ? 7.0 : 3.0)),
          static_cast<int>(bound(part, "steps", omp ? 0.0 : 2.0))};
}

Eigen::MatrixXd least_squares(const Eigen::MatrixXd& A, const Eigen::MatrixXd& Y,
                              const Eigen::MatrixXd& prior, double pull) {
  const Eigen::Index t = A.cols();
  Eigen::MatrixXd stacked(A.rows() + t, t), right(A.rows() + t, Y.cols());
  stacked << A, std::sqrt(pull) * Eigen::MatrixXd::Identity(t, t);
  right << Y, std::sqrt(pull) * prior;
  return Eigen::HouseholderQR<Eigen::MatrixXd>(stacked).solve(right);
}

double mean_square(const Eigen::MatrixXd& A) {
  return A.squaredNorm() / static_cast<double>(A.cols());
}

Eigen::VectorXd matched_weights(const Eigen::MatrixXd& M, const Eigen::VectorXd& target,
                                const Eigen::VectorXd& before, const MatchingBounds& bounds,
                                double pull) {
  const auto clamp = [&](const Eigen::VectorXd& B) -> Eigen::VectorXd {
    return B.cwiseMax(bounds.least).cwiseMin(bounds.largest);
  };
  Eigen::VectorXd B = clamp(least_squares(M, target, before, pull));
  if (bounds.steps == 0) return B;
  Eigen::VectorXd u = Eigen::VectorXd::Ones(M.cols()).normalized();
  for (int i = 0; i < 3; ++i) u = (M.transpose() * (M * u)).normalized();
  const double L = std::max((M * u).squaredNorm(), 1e-6);
  for (int i = 0; i < bounds.steps; ++i) B = clamp(B - M.transpose() * (M * B - target) / L);
  return B;
}

std::vector<double> pursued(const Eigen::MatrixXd& E, const Eigen::VectorXd& weights,
                            const SpecPart& part, int most) {
  const Eigen::VectorXd target = E.rowwise().sum();
  const double pull = part.number("ridge") * mean_square(E);
  const double* drop = std::get_if<double>(&part.argument("drop"));
  const auto columns = [&](const std::vector<int>& picks) {
    Eigen::MatrixXd M(E.rows(), picks.size());
    for (std::size_t i = 0; i < picks.size(); ++i) {
      M.col(i) = E.col(picks[i]) / weights[picks[i]];  // of the keys alone
    }
    return M;
  };
  const auto fitted = [&](const std::vector<int>& picks) {
    MatchingBounds clamped = matching_bounds(part);
    clamped.steps = 0;
    return matched_weights(columns(picks), target, weights(picks), clamped, pull);
  };
  const int n = static_cast<int>(E.cols());
  std::vector<int> picks;
  std::vector<bool> gone(n, false);  // picked or dropped
  std::vector<bool> dropped(n, false);
  Eigen::VectorXd r = target;
  bool fresh = true;
  int refinements = 0;
  for (int round = 0;; ++round) {
    if (static_cast<int>(picks.size()) < std::min(most, n)) {
      const Eigen::VectorXd products = E.transpose() * r;
      int found = 0;
      while (found < part.count("pick") && static_cast<int>(picks.size()) < most) {
        int best = -1;
        for (int j = 0; j < n; ++j) {
          if (!gone[j] && (best < 0 || products[j] > products[best])) best = j;
        }
        if (best < 0) break;
        picks.push_back(best);
        gone[best] = true;
        ++found;
      }
      if (found == 0) break;
      if (!fresh && round % part.count("refit") != 0) continue;
      r = target - columns(picks) * fitted(picks);
      fresh = false;
      continue;
    }
    if (drop == nullptr || ++refinements > 3) break;
    const Eigen::VectorXd B = fitted(picks);
    std::vector<int> stay;
    for (std::size_t i = 0; i < picks.size(); ++i) {
      if (std::log(B[i]) < *drop) {
        dropped[picks[i]] = true;
      } else {
        stay.push_back(picks[i]);
      }
    }
    if (stay.size() == picks.size()) break;
    picks = stay;
    r = target - columns(picks) * fitted(picks);
    fresh = true;
  }
  const Eigen::VectorXd products = E.transpose() * r;
  std::vector<double> scores(n);
  for (int j = 0; j < n; ++j) {
    scores[j] = dropped[j] ? 0.0 : 0.5 + 0.4 * products[j] / products.cwiseAbs().maxCoeff();
  }
  for (std::size_t k = 0; k < picks.size(); ++k)
    scores[picks[k]] = static_cast<double>(n - static_cast<int>(k));
  return scores;
}

Matching NaiveReplay::matching(int head) const {
  const SpecPart& part = policy_.score();
  const int group = model_.group_size(), end = blocks_.back().end;
  int stride = 1;
  while ((end + stride - 1) / stride > std::max(1, part.count("most") / group)) stride *= 2;
  const int held = (end + stride - 1) / stride;
  const int rows = std::max(1, static_cast<int>(std::ceil(part.number("latest") * held)));
  Matching result{Eigen::MatrixXd(group * rows, caches_[head].size()),
                  Eigen::VectorXd::Zero(group * rows), Eigen::VectorXd(caches_[head].size())};
  for (std::size_t j = 0; j < caches_[head].size(); ++j) {
    const Merged* entry = merged(head, caches_[head][j]);
    result.weights[j] = entry != nullptr ? std::exp(entry->log_size) : 1.0;
  }
  for (int i = 0; i < group; ++i) {
    const double sink = attending_.of(head * group + i).sink;
    for (int row = 0; row < rows; ++row) {
      auto e = result.E.row(i * rows + row);
      for (std::size_t j = 0; j < caches_[head].size(); ++j) {
        e[j] = logit(head * group + i, (held - rows + row) * stride, caches_[head][j]);
      }
      const double shift = std::max(e.maxCoeff(), sink);
      e = (e.array() - shift).exp();
      result.sinks[i * rows + row] = std::exp(sink - shift);
    }
  }
  return result;
}

std::vector<NaiveMerge> NaiveReplay::refitted(int head, const std::set<int>& retained) const {
  const SpecPart& part = policy_.score();
  const Matching of = matching(head);
  const std::vector<int>& cache = caches_[head];
  const int width = model_.value_width();
  const Eigen::VectorXd sums = of.E.rowwise().sum();
  Eigen::MatrixXd V(cache.size(), width);
  std::vector<int> rows;  // of the cache
  for (std::size_t j = 0; j < cache.size(); ++j) {
    for (int c = 0; c < width; ++c) V(j, c) = value(head, cache[j], c);
    if (retained.count(cache[j]) == 1) rows.push_back(static_cast<int>(j));
  }
  Eigen::VectorXd B = of.weights(rows);
  const Eigen::MatrixXd M = of.E(Eigen::all, rows) * B.cwiseInverse().asDiagonal();
  const double ridge = part.number("ridge");
  if (part.word("bias") == "fit")
    B = matched_weights(M, sums, B, matching_bounds(part), ridge * mean_square(of.E));
  const Eigen::MatrixXd Y = (sums + of.sinks).cwiseInverse().asDiagonal() * (of.E * V);
  Eigen::MatrixXd X = M * B.asDiagonal();
  const Eigen::VectorXd shares = X.rowwise().sum() + of.sinks;
  X = shares.cwiseInverse().asDiagonal() * X;
  const Eigen::MatrixXd C = least_squares(X, Y, V(rows, Eigen::all), ridge * mean_square(X));
  std::vector<NaiveMerge> result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    NaiveMerge merge;
    merge.into = cache[rows[i]];
    merge.from = {merge.into};
    merge.weights = {1.0};
    merge.key_too = false;
    merge.log_size = std::log(B[i]);
    for (int c = 0; c < model_.head_dim; ++c) merge.key.push_back(key(head, merge.into, c));
    for (int c = 0; c < width; ++c) {
      merge.value.push_back(part.word("values") == "refit" ? C(i, c) : V(rows[i], c));
    }
    result.push_back(merge);
  }
  return result;
}

}  // namespace kvloupe::naive

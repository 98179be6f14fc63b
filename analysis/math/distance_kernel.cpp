#include "analysis/math/distance_kernel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/math/numeric/exponentials.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

namespace {
constexpr int kTile = 64;  // queries of one product

/// The mean of the rows with their rotation undone: [d].
Eigen::VectorXd unrotated_mean(const MatrixView& states, const Rope& rope) {
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(states.cols());
  Eigen::VectorXd one;
  for (Eigen::Index t = 0; t < states.rows(); ++t) {
    one = states.row(t).cast<double>().transpose();
    rope.turn(std::span<double>(one.data(), static_cast<std::size_t>(one.size())),
              -static_cast<double>(t));
    mean += one;
  }
  return mean / static_cast<double>(std::max<Eigen::Index>(states.rows(), 1));
}

/// q̄ᵀ R(Δ) k̄ for Δ < count, as logits.
std::vector<double> kernel_logits(const Eigen::VectorXd& query, const Eigen::VectorXd& key,
                                  const Rope& rope, const LogitRule& rule, int count) {
  struct Wave {
    double cosine, sine, frequency;
  };
  std::vector<Wave> waves;
  double still = query.dot(key);  // of coordinates that are not rotated
  for (std::size_t j = 0; j < rope.pairs(); ++j) {
    const Rope::Pair pair = rope.pair(j);
    const double qx = query[pair.first], qy = query[pair.second];
    const double kx = key[pair.first], ky = key[pair.second];
    still -= qx * kx + qy * ky;
    waves.push_back({qx * kx + qy * ky, qx * ky - qy * kx, pair.frequency});
  }
  std::vector<double> logits;
  for (int distance = 0; distance < count; ++distance) {
    double product = still;
    for (const Wave& wave : waves) {
      const double angle = distance * wave.frequency;
      product += wave.cosine * std::cos(angle) + wave.sine * std::sin(angle);
    }
    logits.push_back(rule.logit(product));
  }
  return logits;
}

/// How many of the queries see a token at each distance: pairs of tokens.
std::vector<double> pairs_at(int distances, int tokens, const Reach& reach) {
  std::vector<double> pairs(static_cast<std::size_t>(distances), 0.0);
  for (int query = 0; query < tokens; ++query) {
    ++pairs[static_cast<std::size_t>(query - first_seen(query, reach))];  // its farthest
  }
  for (std::size_t i = pairs.size(); i-- > 1;) pairs[i - 1] += pairs[i];
  return pairs;
}

/// Softmax over the distances that each query sees; for each distance the mean over the queries
/// that see so far.
std::vector<double> kernel_attention(const std::vector<double>& logits,
                                     const std::vector<double>& pairs, const LogitRule& rule) {
  double shift = rule.sink;
  for (const double logit : logits) shift = std::max(shift, logit);
  std::vector<double> inverse;  // 1 / the sum of a query that sees so far
  double sum = 0.0;
  for (const double logit : logits) {
    sum += std::exp(logit - shift);
    inverse.push_back(1.0 / with_sink(sum, shift, rule));
  }
  std::vector<double> attention(logits.size());
  double sums = 0.0, seen_so_far = 0.0;
  for (std::size_t i = logits.size(); i-- > 0;) {
    sums += inverse[i] * (pairs[i] - seen_so_far);
    seen_so_far = pairs[i];
    attention[i] = std::exp(logits[i] - shift) * sums / pairs[i];
  }
  return attention;
}
}  // namespace

DistanceKernel distance_kernel(const MatrixView& queries, const MatrixView& keys, const Rope& rope,
                               const LogitRule& rule, const Reach& reach, Progress& progress) {
  const int tokens = static_cast<int>(queries.rows());
  const int distances = reach.all() ? tokens : std::min(reach.span(), tokens);
  const auto size = static_cast<std::size_t>(distances);
  DistanceKernel kernel;
  progress.check();
  kernel.logit = kernel_logits(unrotated_mean(queries, rope), unrotated_mean(keys, rope), rope,
                               rule, distances);
  const std::vector<double> pairs = pairs_at(distances, tokens, reach);
  kernel.attention = kernel_attention(kernel.logit, pairs, rule);
  kernel.mean_logit.assign(size, 0.0);
  kernel.mean_attention.assign(size, 0.0);
  kernel.to_others.assign(size, 0.0);
  Matrix logits;
  for (int begin = 0; begin < tokens; begin += kTile) {
    progress.check();
    const int end = std::min(begin + kTile, tokens);
    const int from = first_seen(begin, reach);
    logits.noalias() = rows(queries, begin, end - begin) * rows(keys, from, end - from).transpose();
    to_logits(logits, rule);
    for (int query = begin; query < end; ++query) {
      const int first = first_seen(query, reach);
      const std::span<float> seen(logits.row(query - begin).data() + (first - from),
                                  static_cast<std::size_t>(query + 1 - first));
      for (int token = first; token <= query; ++token) {
        kernel.mean_logit[static_cast<std::size_t>(query - token)] +=
            static_cast<double>(seen[static_cast<std::size_t>(token - first)]);
      }
      const float shift = softmax_shift(largest_of(seen), rule);
      const double sum = with_sink(exponentials(seen, shift), static_cast<double>(shift), rule);
      for (int token = first; token <= query; ++token) {
        const double attention =
            static_cast<double>(seen[static_cast<std::size_t>(token - first)]) / sum;
        const auto distance = static_cast<std::size_t>(query - token);
        kernel.mean_attention[distance] += attention;
        (token < kKernelSinks ? kernel.to_sinks : kernel.to_others[distance]) += attention;
      }
    }
  }
  for (int distance = 0; distance < distances; ++distance) {
    const auto i = static_cast<std::size_t>(distance);
    kernel.mean_logit[i] /= pairs[i];
    kernel.mean_attention[i] /= pairs[i];
    kernel.to_others[i] /= tokens;
  }
  kernel.to_sinks /= std::max(tokens, 1);
  return kernel;
}

int needed_window(std::span<const DistanceKernel> kernels, double share) {
  std::vector<double> to_others;
  double held = 0.0, all = 0.0;
  for (const DistanceKernel& kernel : kernels) {
    to_others.resize(kernel.to_others.size(), 0.0);
    held += kernel.to_sinks;
    for (std::size_t i = 0; i < to_others.size(); ++i) to_others[i] += kernel.to_others[i];
  }
  all = held + std::accumulate(to_others.begin(), to_others.end(), 0.0);
  std::size_t window = 0;
  while (window < to_others.size() && held < share * all) held += to_others[window++];
  return static_cast<int>(window);
}

}  // namespace kvloupe

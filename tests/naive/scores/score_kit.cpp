#include "tests/naive/scores/score_kit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/naive/decompositions.h"

namespace kvloupe::naive {

int rotated_width(const ModelInfo& model) {
  return model.rotary_dim > 0 ? model.rotary_dim : model.head_dim;
}
/// The coordinates of pair j.
std::pair<int, int> pair_of(const ModelInfo& model, int j) {
  const int first = model.rotary_start, half = rotated_width(model) / 2;
  return model.rope_pairing == RopePairing::half ? std::pair(first + j, first + j + half)
                                                 : std::pair(first + 2 * j, first + 2 * j + 1);
}
double frequency(const ModelInfo& model, int j) {
  return std::pow(model.rope_theta, -2.0 * j / rotated_width(model));
}

std::vector<double> turned(const ModelInfo& model, std::vector<double> x, double positions) {
  for (int j = 0; j < rotated_width(model) / 2; ++j) {
    const auto [a, b] = pair_of(model, j);
    const Complex z = Complex(x[a], x[b]) * std::polar(1.0, positions * frequency(model, j));
    x[a] = z.real();
    x[b] = z.imag();
  }
  return x;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  std::vector<double> result;
  for (const double logit : logits) result.push_back(std::exp(logit - largest) / sum);
  return result;
}

/// Zeros outside of the first n, which are divided by too.
std::vector<double> pool(const std::vector<double>& values, int kernel, bool largest, int n) {
  std::vector<double> result = values;
  for (int i = 0; i < n; ++i) {
    double sum = 0.0, most = 0.0;
    for (int j = i - kernel / 2; j <= i + kernel / 2; ++j) {
      const double value = j < 0 || j >= n ? 0.0 : values[j];
      sum += value;
      most = std::max(most, value);
    }
    result[i] = largest ? most : sum / kernel;
  }
  return result;
}

std::vector<double> key_vector(const NaiveReplay& r, int head, int token, bool rotated) {
  std::vector<double> result;
  for (int c = 0; c < r.model().head_dim; ++c) result.push_back(r.key(head, token, c));
  return rotated ? result : turned(r.model(), result, -token);
}

std::vector<double> query_vector(const NaiveReplay& r, int query_head, int token, bool rotated) {
  std::vector<double> result;
  for (int c = 0; c < r.model().head_dim; ++c) {
    result.push_back(static_cast<double>(r.states().queries[query_head](token, c)));
  }
  return rotated ? result : turned(r.model(), result, -token);
}

Scores with_protected(const Scores& scores, const std::vector<int>& cache) {
  Scores result = scores;
  double largest = scores.empty() ? 0.0 : -std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : scores) largest = std::max(largest, score);
  for (const int token : cache) result.insert({token, largest});
  return result;
}

Scores chunk_attention(const NaiveReplay& r, int head, int first_token, int hold_back) {
  const SpecPart& part = r.part();
  const int size = part.count("chunk"), group = r.model().group_size(), d = r.model().head_dim;
  const bool scaled = part.count("scaled") == 1, padded = part.count("padded") == 1;
  Scores received;
  std::vector<int> waiting;
  for (const Block& block : r.blocks()) {
    for (int t = std::max(block.first, first_token); t < block.end; ++t) {
      if (r.sees(block.end, t)) waiting.push_back(t);
    }
    const int ready = std::max(static_cast<int>(waiting.size()) - hold_back, 0);
    for (int first = 0; first < ready; first += size) {
      const int end = std::min(first + size, ready);
      for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
        // Queries that are missing pay all of the chunk alike.
        for (int missing = end - first; padded && missing < size; ++missing) {
          for (int j = first; j < end; ++j) received[waiting[j]] += 1.0 / size / group;
        }
        for (int i = first; i < end; ++i) {
          std::vector<double> logits;
          for (int j = first; j < end; ++j) {
            double product = 0.0;
            for (int c = 0; c < d; ++c) {
              product += static_cast<double>(r.states().queries[query_head](waiting[i], c)) *
                         static_cast<double>(r.states().keys[head](waiting[j], c));
            }
            logits.push_back(scaled ? r.capped(r.attending().scale * product) : product);
          }
          if (scaled && !r.attending().sink_logits.empty()) {
            logits.push_back(static_cast<double>(r.attending().sink_logits[query_head]));
          }
          for (int missing = end - first; padded && missing < size; ++missing) {
            logits.push_back(0.0);
          }
          const auto weights = softmax(logits);
          for (int j = first; j < end; ++j) received[waiting[j]] += weights[j - first] / group;
        }
      }
    }
    waiting.erase(waiting.begin(), waiting.begin() + ready);
  }
  return received;
}

double value_range(const NaiveReplay& r, int head, int token) {
  double least = r.value(head, token, 0), most = least;
  for (int c = 1; c < r.model().value_width(); ++c) {
    least = std::min(least, r.value(head, token, c));
    most = std::max(most, r.value(head, token, c));
  }
  return most - least;
}

std::vector<double> leverage_of(const NaiveReplay& r, int head, const std::vector<int>& tokens) {
  const SpecPart& part = r.part();
  const int d = r.model().head_dim, n = static_cast<int>(tokens.size());
  const int sketch = part.count("sketch");
  const auto seed = static_cast<std::uint64_t>(part.number("seed"));
  Eigen::MatrixXd x(n, d);
  for (int i = 0; i < n; ++i) {
    const auto k = key_vector(r, head, tokens[i], false);
    for (int c = 0; c < d; ++c) x(i, c) = k[c];
  }
  for (int c = 0; c < d; ++c) {
    const double mean = x.col(c).mean();
    for (int i = 0; i < n; ++i) x(i, c) -= mean;
  }
  if (sketch > 0 && sketch < d) {
    Eigen::MatrixXd projection(d, sketch);
    for (int row = 0; row < d; ++row) {
      for (int column = 0; column < sketch; ++column) {
        const int place = 2 * (row * 65536 + column);
        const double radius = std::sqrt(-2.0 * std::log(1.0 - r.hash(seed, head, place)));
        const double angle = 2.0 * std::acos(-1.0) * r.hash(seed, head, place + 1);
        projection(row, column) = radius * std::cos(angle) / std::sqrt(sketch);
      }
    }
    x = (x * projection).eval();
  }
  Eigen::MatrixXd gram = x.transpose() * x;
  for (int c = 0; c < gram.cols(); ++c) gram(c, c) += part.number("ridge");
  const Eigen::MatrixXd inverse = naive::inverse(gram);
  std::vector<double> scores;
  for (int i = 0; i < n; ++i) scores.push_back(x.row(i) * inverse * x.row(i).transpose());
  return scores;
}

std::vector<double> window_mean(const NaiveReplay& r, int head, const Block& block, int window,
                                std::size_t entries) {
  const int group = r.model().group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = r.cache(head);
  std::vector<double> mean(entries, 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = r.step_attention(query_head, query);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row.at(cache[i]) / (rows * group);
    }
  }
  return mean;
}

}  // namespace kvloupe::naive

// The scores of other papers and libraries than the first four, in plain loops.

#include <Eigen/LU>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <complex>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

namespace {
using Complex = std::complex<double>;

/// The coordinates of pair j.
std::pair<int, int> pair_of(const ModelInfo& model, int j) {
  const int half = model.head_dim / 2;
  return model.rope_pairing == RopePairing::half ? std::pair(j, j + half)
                                                 : std::pair(2 * j, 2 * j + 1);
}
double frequency(const ModelInfo& model, int j) {
  return std::pow(model.rope_theta, -2.0 * j / model.head_dim);
}

std::vector<double> turned(const ModelInfo& model, std::vector<double> x, double positions) {
  for (int j = 0; j < model.head_dim / 2; ++j) {
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
}  // namespace

std::vector<double> NaiveReplay::key_vector(int head, int token, bool rotated) const {
  std::vector<double> result;
  for (int c = 0; c < model_.head_dim; ++c) result.push_back(key(head, token, c));
  return rotated ? result : turned(model_, result, -token);
}

std::vector<double> NaiveReplay::query_vector(int query_head, int token, bool rotated) const {
  std::vector<double> result;
  for (int c = 0; c < model_.head_dim; ++c) {
    result.push_back(static_cast<double>(states_.queries[query_head](token, c)));
  }
  return rotated ? result : turned(model_, result, -token);
}

double NaiveReplay::value_norm(int head, int token, int power) const {
  double sum = 0.0;
  for (int c = 0; c < model_.head_dim; ++c) sum += std::pow(std::abs(value(head, token, c)), power);
  return power == 1 ? sum : std::sqrt(sum);
}

NaiveReplay::Scores NaiveReplay::with_protected(const Scores& scores, int head) const {
  Scores result = scores;
  double largest = scores.empty() ? 0.0 : -std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : scores) largest = std::max(largest, score);
  for (const int token : caches_[head]) result.insert({token, largest});
  return result;
}

NaiveReplay::Scores NaiveReplay::expected(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int sinks = part.count("sinks"), future = part.count("future"), d = model_.head_dim;
  const int group = model_.group_size();
  Scores scores;
  std::vector<int> tokens;
  for (const int token : caches_[head]) {
    if (token >= sinks) tokens.push_back(token);
  }
  for (int query_head = head * group; query_head < (head + 1) * group && !tokens.empty();
       ++query_head) {
    // Mean and covariance of the queries before RoPE.
    std::vector<double> mean(d, 0.0);
    Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(d, d);
    const int count = std::max(block.end - sinks, 0);
    for (int t = sinks; t < block.end; ++t) {
      const auto q = query_vector(query_head, t, false);
      for (int c = 0; c < d; ++c) mean[c] += q[c] / count;
    }
    for (int t = sinks; t < block.end; ++t) {
      const auto q = query_vector(query_head, t, false);
      for (int a = 0; a < d; ++a) {
        for (int b = 0; b < d; ++b) covariance(a, b) += (q[a] - mean[a]) * (q[b] - mean[b]) / count;
      }
    }
    // The mean rotation, as a matrix.
    Eigen::MatrixXd rotation = Eigen::MatrixXd::Zero(d, d);
    for (int j = 0; j < d / 2; ++j) {
      const auto [a, b] = pair_of(model_, j);
      for (int p = block.end; p < block.end + future; ++p) {
        const double angle = p * frequency(model_, j);
        rotation(a, a) += std::cos(angle) / future;
        rotation(b, b) += std::cos(angle) / future;
        rotation(a, b) -= std::sin(angle) / future;
        rotation(b, a) += std::sin(angle) / future;
      }
    }
    const Eigen::VectorXd centre = rotation * Eigen::Map<Eigen::VectorXd>(mean.data(), d);
    const Eigen::MatrixXd spread = rotation * covariance * rotation.transpose();
    std::vector<double> logits;
    const double s = attending_.scale;
    for (const int token : tokens) {
      const auto k = key_vector(head, token, true);
      const Eigen::Map<const Eigen::VectorXd> x(k.data(), d);
      double logit = s * x.dot(centre);
      if (part.count("covariance") == 1) logit += s * s / 2.0 * x.dot(spread * x);
      const Merged* entry = merged(head, token);
      logits.push_back(logit + (entry != nullptr ? entry->log_size : 0.0));
    }
    if (!attending_.sink_logits.empty()) {
      logits.push_back(static_cast<double>(attending_.sink_logits[query_head]));
    }
    const auto weights = softmax(logits);
    for (std::size_t i = 0; i < tokens.size(); ++i) scores[tokens[i]] += weights[i] / group;
  }
  for (auto& [token, score] : scores) {
    score += part.number("epsilon");
    if (part.count("value_norm") == 1) score *= value_norm(head, token, 2);
  }
  return with_protected(scores, head);
}

NaiveReplay::Scores NaiveReplay::qfilter(int head, const Block& block) const {
  const int d = model_.head_dim, group = model_.group_size();
  Eigen::VectorXd filter = Eigen::VectorXd::Zero(d);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    Eigen::MatrixXd queries(block.end, d);
    for (int t = 0; t < block.end; ++t) {
      const auto q = query_vector(query_head, t, true);
      for (int c = 0; c < d; ++c) queries(t, c) = q[c];
    }
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(queries, Eigen::ComputeThinV);
    Eigen::VectorXd direction = svd.matrixV().col(0);
    if ((queries * direction).mean() < 0.0) direction = -direction;
    filter += direction / group;
  }
  Scores scores;
  for (const int token : caches_[head]) {
    for (int c = 0; c < d; ++c) scores[token] += filter[c] * key(head, token, c);
  }
  return scores;
}

NaiveReplay::Scores NaiveReplay::lagkv(int head) const {
  const SpecPart& part = policy_.score();
  const int sinks = part.count("sinks"), lag = part.count("lag"), d = model_.head_dim;
  const std::vector<int>& cache = caches_[head];
  std::vector<int> rest;
  for (const int token : cache) {
    if (token >= sinks) rest.push_back(token);
  }
  Scores scores;
  for (const int token : cache) scores[token] = 1.0;
  const int n = static_cast<int>(rest.size());
  if (n < 2 * lag) {
    scores.clear();
    for (int i = 0; i < n; ++i) scores[rest[i]] = static_cast<double>(i) / cache.size();
    return with_protected(scores, head);
  }
  const auto coordinate = [&](bool of_key, int token, int c) {
    return of_key ? key(head, token, c) : value(head, token, c);
  };
  for (int begin = 0; begin + 2 * lag <= n; begin += lag) {
    std::vector<double> sum(lag, 0.0);
    for (const bool of_key : {true, false}) {
      std::vector<double> deviations;
      for (int i = begin; i < begin + lag; ++i) {
        std::vector<double> places;
        for (int c = 0; c < d; ++c) {
          double least = 1e300, most = -1e300;
          for (int j = begin + lag; j < begin + 2 * lag; ++j) {
            least = std::min(least, coordinate(of_key, rest[j], c));
            most = std::max(most, coordinate(of_key, rest[j], c));
          }
          places.push_back(most > least ? (coordinate(of_key, rest[i], c) - least) / (most - least)
                                        : 0.0);
        }
        double mean = 0.0, squares = 0.0;
        for (const double place : places) mean += place / d;
        for (const double place : places) squares += (place - mean) * (place - mean);
        deviations.push_back(std::sqrt(squares / (d - 1)));
      }
      const auto shares = softmax(deviations);
      for (int i = 0; i < lag; ++i) sum[i] += shares[i] / 2.0;
    }
    for (int i = 0; i < lag; ++i) {
      double score = sum[i];
      if (part.count("cross") == 0) {
        int below = 0;
        for (int j = 0; j < lag; ++j) below += std::pair(sum[j], j) < std::pair(sum[i], i) ? 1 : 0;
        score = static_cast<double>(below) / lag;
      }
      scores[rest[begin + i]] = score;
    }
  }
  return scores;
}

NaiveReplay::Scores NaiveReplay::chunk_attention(int head, int first_token, int hold_back) const {
  const SpecPart& part = policy_.score();
  const int size = part.count("chunk"), group = model_.group_size(), d = model_.head_dim;
  const bool scaled = part.count("scaled") == 1, padded = part.count("padded") == 1;
  Scores received;
  std::vector<int> waiting;
  for (const Block& block : blocks_) {
    for (int t = std::max(block.first, first_token); t < block.end; ++t) {
      if (sees(block.end, t)) waiting.push_back(t);
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
              product += static_cast<double>(states_.queries[query_head](waiting[i], c)) *
                         static_cast<double>(states_.keys[head](waiting[j], c));
            }
            logits.push_back(scaled ? capped(attending_.scale * product) : product);
          }
          if (scaled && !attending_.sink_logits.empty()) {
            logits.push_back(static_cast<double>(attending_.sink_logits[query_head]));
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

NaiveReplay::Scores NaiveReplay::noncausal(int head) const {
  const Scores received = chunk_attention(head, 0, 0);
  std::vector<double> own;
  for (const int token : caches_[head]) {
    own.push_back(received.at(token) * value_norm(head, token, 2));
  }
  own = pool(own, 3, false, static_cast<int>(own.size()));
  Scores scores;
  for (std::size_t i = 0; i < own.size(); ++i) scores[caches_[head][i]] = own[i];
  return scores;
}

std::vector<double> NaiveReplay::leverage_of(int head, const std::vector<int>& tokens) const {
  const SpecPart& part = policy_.score();
  const int d = model_.head_dim, n = static_cast<int>(tokens.size());
  const int sketch = part.count("sketch");
  const auto seed = static_cast<std::uint64_t>(part.number("seed"));
  Eigen::MatrixXd x(n, d);
  for (int i = 0; i < n; ++i) {
    const auto k = key_vector(head, tokens[i], false);
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
        const double radius = std::sqrt(-2.0 * std::log(1.0 - hash(seed, head, place)));
        const double angle = 2.0 * std::acos(-1.0) * hash(seed, head, place + 1);
        projection(row, column) = radius * std::cos(angle) / std::sqrt(sketch);
      }
    }
    x = (x * projection).eval();
  }
  Eigen::MatrixXd gram = x.transpose() * x;
  for (int c = 0; c < gram.cols(); ++c) gram(c, c) += part.number("ridge");
  const Eigen::MatrixXd inverse = gram.inverse();
  std::vector<double> scores;
  for (int i = 0; i < n; ++i) scores.push_back(x.row(i) * inverse * x.row(i).transpose());
  return scores;
}

NaiveReplay::Scores NaiveReplay::leverage(int head) const {
  const auto own = leverage_of(head, caches_[head]);
  Scores scores;
  for (std::size_t i = 0; i < own.size(); ++i) scores[caches_[head][i]] = own[i];
  return scores;
}

NaiveReplay::Scores NaiveReplay::compactor(int head, int budget) const {
  const SpecPart& part = policy_.score();
  const int first = part.count("first"), last = part.count("last");
  const int heads = static_cast<int>(caches_.size());
  std::vector<std::vector<int>> tokens(heads);
  std::vector<std::vector<double>> of_leverage(heads), of_attention(heads);
  for (int h = 0; h < heads; ++h) {
    const int n = static_cast<int>(caches_[h].size());
    for (int i = 0; i < n - last; ++i) {
      if (caches_[h][i] >= first) tokens[h].push_back(caches_[h][i]);
    }
    of_leverage[h] = tokens[h].empty() ? std::vector<double>() : leverage_of(h, tokens[h]);
    const Scores received = chunk_attention(h, first, last);
    for (const int token : tokens[h]) {
      const auto found = received.find(token);
      of_attention[h].push_back(found == received.end() ? 0.0
                                                        : found->second * value_norm(h, token, 2));
    }
    of_attention[h] = pool(of_attention[h], 3, false, static_cast<int>(of_attention[h].size()));
  }
  const auto standard = [&](const std::vector<std::vector<double>>& all, double value) {
    double sum = 0.0, count = 0.0, squares = 0.0;
    for (const auto& own : all) {
      for (const double x : own) sum += x, count += 1.0;
    }
    for (const auto& own : all) {
      for (const double x : own) squares += (x - sum / count) * (x - sum / count);
    }
    const double deviation = count < 2.0 ? 0.0 : std::sqrt(squares / (count - 1.0));
    return (value - sum / count) / std::max(deviation, 1e-6);
  };
  const SpecValue& given = part.argument("blending");
  const double* fixed = std::get_if<double>(&given);
  const double n = static_cast<double>(caches_[head].size());
  const double blending = fixed != nullptr ? *fixed : std::max(0.0, 1.0 - budget / n);
  Scores scores;
  for (std::size_t i = 0; i < tokens[head].size(); ++i) {
    scores[tokens[head][i]] = blending * standard(of_leverage, of_leverage[head][i]) +
                              standard(of_attention, of_attention[head][i]);
  }
  return with_protected(scores, head);
}

NaiveReplay::Scores NaiveReplay::cur(int head) const {
  const SpecPart& part = policy_.score();
  const std::string& of = part.word("of");
  const int window = part.count("window");
  const std::vector<int>& cache = caches_[head];
  std::vector<double> keys, values;
  for (const int token : cache) {
    keys.push_back(product(head, token, token));
    values.push_back(value_norm(head, token, 2) * value_norm(head, token, 2));
  }
  const auto share = [&](const std::vector<double>& squares, std::size_t i) {
    const std::size_t first = i / window * window;
    double sum = 0.0;
    for (std::size_t j = first; j < std::min(first + window, squares.size()); ++j)
      sum += squares[j];
    return sum > 0.0 ? squares[i] / sum : 0.0;
  };
  Scores scores;
  double sum = 0.0;
  for (std::size_t i = 0; i < cache.size(); ++i) {
    const double k = share(keys, i), v = share(values, i);
    scores[cache[i]] = of == "product" ? k * v : of == "keys" ? k : of == "values" ? v : k + v;
    sum += scores[cache[i]];
  }
  Scores rest;
  for (const auto& [token, score] : scores) {
    rest[token] = sum > 0.0 ? score / sum : 0.0;
  }
  return rest;
}

NaiveReplay::Scores NaiveReplay::capkv(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int sinks = part.count("sinks"), future = part.count("future"), d = model_.head_dim;
  const int group = model_.group_size();
  std::vector<int> tokens;
  for (const int token : caches_[head]) {
    if (token >= sinks) tokens.push_back(token);
  }
  Scores scores;
  for (int query_head = head * group; query_head < (head + 1) * group && !tokens.empty();
       ++query_head) {
    // The mean over queries and positions of the query as it would be there.
    std::vector<double> mean(d, 0.0), anchor(d, 0.0);
    const int count = std::max(block.end - sinks, 0);
    for (int t = sinks; t < block.end; ++t) {
      const auto q = query_vector(query_head, t, false);
      for (int c = 0; c < d; ++c) mean[c] += q[c] / count;
    }
    for (int p = block.end; p < block.end + future; ++p) {
      const auto there = turned(model_, mean, p);
      for (int c = 0; c < d; ++c) anchor[c] += there[c] / future;
    }
    std::vector<double> weights;
    double length = 0.0, largest = -1e300;
    for (const double x : anchor) length += x * x;
    for (const int token : tokens) {
      double dot = 0.0;
      for (int c = 0; c < d; ++c) dot += anchor[c] * key(head, token, c);
      const bool cosine = part.count("cosine") == 1;
      const double lengths = cosine ? std::sqrt(length) * key_norm(head, token) : 1.0;
      weights.push_back(lengths > 0.0 ? part.number("tau") * dot / lengths : 0.0);
      largest = std::max(largest, weights.back());
    }
    Eigen::MatrixXd sum = Eigen::MatrixXd::Identity(d, d);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      weights[i] = std::exp(weights[i] - largest);
      for (int a = 0; a < d; ++a) {
        for (int b = 0; b < d; ++b) {
          sum(a, b) += (weights[i] + part.number("epsilon")) * value(head, tokens[i], a) *
                       value(head, tokens[i], b);
        }
      }
    }
    const Eigen::MatrixXd inverse = sum.inverse();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      double form = 0.0;
      for (int a = 0; a < d; ++a) {
        for (int b = 0; b < d; ++b) {
          form += value(head, tokens[i], a) * inverse(a, b) * value(head, tokens[i], b);
        }
      }
      scores[tokens[i]] += weights[i] * form / group;
    }
  }
  return with_protected(scores, head);
}

NaiveReplay::Scores NaiveReplay::dropkv(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int window = part.count("window"), group = model_.group_size(), d = model_.head_dim;
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = caches_[head];
  std::vector<double> moved(cache.size(), 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores p = step_attention(query_head, query);
      std::vector<double> output(d, 0.0);
      for (const int token : cache) {
        for (int c = 0; c < d; ++c) output[c] += p.at(token) * value(head, token, c);
      }
      for (std::size_t j = 0; j < cache.size(); ++j) {
        const double own = p.at(cache[j]);
        const double weight = own / (1.0 - own + part.number("epsilon"));
        for (int c = 0; c < d; ++c) {
          const double difference = value(head, cache[j], c) - output[c];
          moved[j] += weight * weight * difference * difference / group;
        }
      }
    }
  }
  moved = pool(moved, part.count("kernel"), false,
               std::max(static_cast<int>(cache.size()) - window, 0));
  Scores scores;
  for (std::size_t i = 0; i < cache.size(); ++i) scores[cache[i]] = moved[i];
  return scores;
}

NaiveReplay::Scores NaiveReplay::rkv(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int window = part.count("window"), group = model_.group_size();
  const int rows = std::min(window, block.end);  // of whatever steps
  const std::vector<int>& cache = caches_[head];
  const int n = static_cast<int>(cache.size());
  const int candidates = std::max(n - window, 0);
  Scores scores;
  if (candidates == 0) return with_protected(scores, head);
  std::vector<double> attention(candidates, 0.0);
  for (int query = block.end - rows; query < block.end; ++query) {
    std::vector<double> logits;
    for (int i = 0; i < candidates; ++i) {
      double largest = -1e300;
      for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
        largest = std::max(largest, logit(query_head, query, cache[i]));
      }
      logits.push_back(largest);
    }
    const auto weights = softmax(logits);
    for (int i = 0; i < candidates; ++i) attention[i] += weights[i] / rows;
  }
  attention = pool(attention, part.count("kernel"), true, candidates);
  std::vector<double> mean(n, 0.0);
  for (int i = 0; i < n; ++i) {
    std::vector<double> cosines;
    for (int j = 0; j < n; ++j) {
      const double lengths = key_norm(head, cache[i]) * key_norm(head, cache[j]);
      cosines.push_back(i == j || lengths == 0.0 ? 0.0
                                                 : product(head, cache[i], cache[j]) / lengths);
    }
    int latest = 0;
    for (int j = 0; j < n; ++j) latest = cosines[j] > part.number("threshold") ? j : latest;
    cosines[latest] = 0.0;
    for (int j = 0; j < n; ++j) mean[j] += cosines[j] / n;
  }
  const auto repeated = softmax(mean);
  const double lambda = part.number("lambda");
  for (int i = 0; i < candidates; ++i) {
    scores[cache[i]] = lambda * attention[i] - (1.0 - lambda) * repeated[i];
  }
  return with_protected(scores, head);
}

std::vector<double> NaiveReplay::window_mean(int head, const Block& block, int window,
                                             std::size_t entries) const {
  const int group = model_.group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = caches_[head];
  std::vector<double> mean(entries, 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = step_attention(query_head, query);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row.at(cache[i]) / (rows * group);
    }
  }
  return mean;
}

NaiveReplay::Scores NaiveReplay::cakescore(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int window = part.count("window"), group = model_.group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = caches_[head];
  std::vector<double> spread = window_mean(head, block, window, cache.size());
  for (int query_head = head * group; query_head < (head + 1) * group && rows > 1; ++query_head) {
    std::vector<Scores> attention;
    for (int query = block.end - rows; query < block.end; ++query) {
      attention.push_back(step_attention(query_head, query));
    }
    for (std::size_t i = 0; i < spread.size(); ++i) {
      double mean = 0.0, squares = 0.0;
      for (const Scores& row : attention) mean += row.at(cache[i]) / rows;
      for (const Scores& row : attention) squares += std::pow(row.at(cache[i]) - mean, 2);
      spread[i] += part.number("gamma") * squares / (rows - 1) / group;
    }
  }
  spread = pool(spread, part.count("kernel"), false,
                std::max(static_cast<int>(cache.size()) - window, 0));
  Scores scores;
  for (std::size_t i = 0; i < cache.size(); ++i) scores[cache[i]] = spread[i];
  return scores;
}

NaiveReplay::Scores NaiveReplay::lavascore(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int window = part.count("window"), group = model_.group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = caches_[head];
  const int candidates = std::max(static_cast<int>(cache.size()) - window, 0);
  double longest = 0.0;
  for (int i = 0; i < candidates; ++i) {
    double norm = 0.0;
    for (int c = 0; c < model_.head_dim; ++c) norm += std::abs(value(head, cache[i], c));
    longest = std::max(longest, norm);
  }
  Scores scores;
  for (const int token : cache) scores[token] = 0.0;
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    std::vector<double> mean(cache.size(), 0.0);
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = step_attention(query_head, query);
      for (std::size_t i = 0; i < cache.size(); ++i) mean[i] += row.at(cache[i]) / rows;
    }
    mean = pool(mean, part.count("kernel"), true, candidates);
    for (std::size_t i = 0; i < cache.size(); ++i) {
      scores[cache[i]] = std::max(scores[cache[i]], mean[i] * longest);
    }
  }
  return scores;
}

NaiveReplay::Scores NaiveReplay::defensive(int head, const Block& block, int budget) const {
  const double mass = policy_.score().number("mass");
  Scores scores = risk(head, block);
  if (mass <= 0.0) return scores;
  const int window = policy_.score().count("window"), heads = static_cast<int>(caches_.size());
  double largest = 0.0, bias = 0.0;
  const auto before = [&](int of_head) {  // how many entries come before the window
    return static_cast<std::size_t>(
        std::max(static_cast<int>(caches_[of_head].size()) - window, 0));
  };
  for (int other = 0; other < heads; ++other) {
    const Scores risks = risk(other, block);
    for (std::size_t i = 0; i < before(other); ++i) {
      largest = std::max(largest, risks.at(caches_[other][i]));
    }
    const std::vector<double> mean = window_mean(other, block, window, before(other));
    const int n = static_cast<int>(mean.size());
    for (int i = std::max(n - window, 0); i < n; ++i) bias += mean[i] / heads;
  }
  const std::vector<double> mean = window_mean(head, block, window, before(head));
  double all = 0.0;
  for (const double one : mean) all += one;
  std::vector<std::pair<double, int>> order;  // best first, of equals the earlier
  for (std::size_t i = 0; i < mean.size(); ++i) order.emplace_back(-mean[i], static_cast<int>(i));
  std::sort(order.begin(), order.end());
  double sum = 0.0;
  for (int i = 0; i < std::min(static_cast<int>(order.size()), budget - window) && all > 0.0; ++i) {
    sum -= order[i].first / all;
    if (sum >= mass - bias) break;
    scores[caches_[head][order[i].second]] = largest;
  }
  return scores;
}

NaiveReplay::Scores NaiveReplay::risk(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int window = part.count("window"), group = model_.group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = caches_[head];
  const int candidates = std::max(static_cast<int>(cache.size()) - window, 0);
  std::vector<double> worst(cache.size(), 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = step_attention(query_head, query);
      std::vector<double> own;
      for (int i = 0; i < candidates; ++i) own.push_back(row.at(cache[i]));
      const auto pooled = pool(own, part.count("kernel"), false, candidates);
      double before = 0.0, after = 0.0;
      for (int i = 0; i < candidates; ++i) before += own[i], after += pooled[i];
      for (int i = 0; i < candidates && after > 0.0; ++i) {
        worst[i] = std::max(worst[i], pooled[i] * before / after);
      }
      for (std::size_t i = candidates; i < cache.size(); ++i) {
        worst[i] = std::max(worst[i], row.at(cache[i]));
      }
    }
  }
  double mean = 0.0;
  for (int i = 0; i < candidates; ++i) mean += worst[i] / candidates;
  // ‖v W_O‖₁, mean over the group.
  const auto output = [&](int of_head, int token) {
    double norm = 0.0;
    for (int query_head = of_head * group; query_head < (of_head + 1) * group; ++query_head) {
      for (int column = 0; column < model_.hidden_size; ++column) {
        double sum = 0.0;
        for (int c = 0; c < model_.head_dim; ++c) {
          sum += value(of_head, token, c) *
                 static_cast<double>(states_.output_weights[query_head](c, column));
        }
        norm += std::abs(sum) / group;
      }
    }
    return norm;
  };
  Scores scores;
  for (int i = 0; i < static_cast<int>(cache.size()); ++i) {
    double share = 1.0;
    if (part.count("outputs") == 1) {
      double sum = 0.0;
      for (int other = 0; other < static_cast<int>(caches_.size()); ++other) {
        const auto& held = caches_[other];
        if (std::find(held.begin(), held.end(), cache[i]) != held.end()) {
          sum += output(other, cache[i]);
        }
      }
      share = sum > 0.0 ? output(head, cache[i]) / sum : 0.0;
    }
    scores[cache[i]] = std::max(worst[i], mean) * share;
  }
  return scores;
}

NaiveReplay::Scores NaiveReplay::vatp(int head) const {
  Scores scores;
  for (const int token : caches_[head]) {
    scores[token] = received_[head].at(token) * value_norm(head, token, 1);
  }
  return scores;
}

NaiveReplay::Scores NaiveReplay::triattention(int head, const Block& block) const {
  const SpecPart& part = policy_.score();
  const int group = model_.group_size(), pairs = model_.head_dim / 2;
  const int now = block.end;
  const std::vector<int>& cache = caches_[head];
  const bool largest = part.word("aggregate") == "max";
  std::vector<double> result(cache.size(), largest ? -1e300 : 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    std::vector<Complex> centre(pairs, 0.0);
    std::vector<double> length(pairs, 0.0);
    for (int t = 0; t < block.end; ++t) {
      const auto q = query_vector(query_head, t, false);
      for (int j = 0; j < pairs; ++j) {
        const auto [a, b] = pair_of(model_, j);
        centre[j] += Complex(q[a], q[b]) / static_cast<double>(block.end);
        length[j] += std::hypot(q[a], q[b]) / block.end;
      }
    }
    std::vector<double> own;
    for (const int token : cache) {
      const auto k = key_vector(head, token, false);
      double score = 0.0;
      for (int j = 0; j < pairs; ++j) {
        const auto [a, b] = pair_of(model_, j);
        const Complex of_key(k[a], k[b]);
        const double angle = std::arg(centre[j] * std::conj(of_key));
        double mean = 0.0;
        for (double delta = 1.0; delta <= 65536.0; delta *= 2.0) {
          mean += std::cos((now - token + delta) * frequency(model_, j) + angle) / 17.0;
        }
        score += std::abs(centre[j]) * std::abs(of_key) * mean;
        score += (length[j] - std::abs(centre[j])) * std::abs(of_key);
      }
      own.push_back(score);
    }
    if (part.count("standard") == 1) {
      double mean = 0.0, squares = 0.0;
      const double n = static_cast<double>(own.size());
      for (const double x : own) mean += x / n;
      for (const double x : own) squares += (x - mean) * (x - mean);
      const double deviation = std::sqrt(squares / n);
      for (double& x : own) x = (x - mean) / std::max(deviation, 1e-6);
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      result[i] = largest ? std::max(result[i], own[i]) : result[i] + own[i] / group;
    }
  }
  Scores scores;
  for (std::size_t i = 0; i < cache.size(); ++i) scores[cache[i]] = result[i];
  return scores;
}

}  // namespace kvloupe::naive

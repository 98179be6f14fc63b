// What a user's formula reads of an entry, in plain loops (methods of analysis/policy/scores/expr.cpp).

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

NaiveReplay::Scores NaiveReplay::variable(const std::string& name, int head,
                                          const Block& block) const {
  const std::vector<int>& cache = caches_[head];
  const int group = model_.group_size();
  const int d = model_.head_dim;
  // Mean over the group and the last `count` queries of the block.
  const auto attention_mean = [&](int count) {
    const int rows = std::min(count, block.size());
    Scores mean;
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      for (int query = block.end - rows; query < block.end; ++query) {
        for (const auto& [token, weight] : step_attention(query_head, query)) {
          mean[token] += weight / (rows * group);
        }
      }
    }
    return mean;
  };
  if (name == "attn_last") return attention_mean(1);
  if (name == "attn_window") return attention_mean(32);
  std::vector<double> output(static_cast<std::size_t>(d), 0.0);  // of the last query
  std::vector<double> mean = output, mean_direction = output;
  for (const auto& [token, weight] : attention_mean(1)) {
    const double norm = key_norm(head, token);
    for (int c = 0; c < d; ++c) {
      output[c] += weight * value(head, token, c);
      mean[c] += key(head, token, c);
      mean_direction[c] += norm > 0.0 ? key(head, token, c) / norm : 0.0;
    }
  }
  const auto cosine = [&](const std::vector<double>& with, int token) {
    double dot = 0.0, square = 0.0;
    for (int c = 0; c < d; ++c) {
      dot += with[c] * key(head, token, c);
      square += with[c] * with[c];
    }
    const double lengths = std::sqrt(square) * key_norm(head, token);
    return lengths > 0.0 ? dot / lengths : 0.0;
  };
  Scores result;
  for (const int token : cache) {
    double value_square = 0.0, distance = 0.0, out_norm = 0.0;
    for (int c = 0; c < d; ++c) {
      value_square += value(head, token, c) * value(head, token, c);
      distance += std::pow(output[c] - value(head, token, c), 2.0);
    }
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      for (int column = 0; column < model_.hidden_size; ++column) {
        double sum = 0.0;
        for (int c = 0; c < d; ++c) {
          sum += value(head, token, c) *
                 static_cast<double>(states_.output_weights[query_head](c, column));
        }
        out_norm += std::abs(sum) / group;
      }
    }
    double x = 0.0;
    if (name == "attn_sum") {
      x = received_[head].at(token);
    } else if (name == "cos_anchor") {
      x = cosine(mean_direction, token);
    } else if (name == "cos_mean") {
      x = cosine(mean, token);
    } else if (name == "key_norm") {
      x = key_norm(head, token);
    } else if (name == "value_norm") {
      x = std::sqrt(value_square);
    } else if (name == "value_out_norm") {
      x = out_norm;
    } else if (name == "dist_output") {
      x = std::sqrt(distance);
    } else if (name == "age") {
      x = block.end - 1 - token;
    } else if (name == "position") {
      x = token;
    } else if (name == "is_recent") {
      x = token >= block.first ? 1.0 : 0.0;
    } else if (name == "n") {
      x = static_cast<double>(cache.size());
    } else if (name == "budget") {
      x = budget_;
    } else {
      throw std::logic_error("no naive variable " + name);
    }
    result[token] = x;
  }
  return result;
}

}  // namespace kvloupe::naive

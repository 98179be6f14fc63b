// The variables that a user's formula reads of an entry (analysis/policy/scores/expr.cpp).

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static  /// The formula is one variable.
    Scores
    expr_score(const NaiveReplay& r, int head, const Block& block, int) {
  const std::string& name = r.part().word("formula");
  const std::vector<int>& cache = r.cache(head);
  const int group = r.model().group_size();
  const int d = r.model().head_dim, width = r.model().value_width();
  // Mean over the group and the last `count` queries of the block.
  const auto attention_mean = [&](int count) {
    const int rows = std::min(count, block.size());
    Scores mean;
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      for (int query = block.end - rows; query < block.end; ++query) {
        for (const auto& [token, weight] : r.step_attention(query_head, query)) {
          mean[token] += weight / (rows * group);
        }
      }
    }
    return mean;
  };
  if (name == "attn_last") return attention_mean(1);
  if (name == "attn_window") return attention_mean(32);
  std::vector<double> output(static_cast<std::size_t>(width), 0.0);  // of the last query
  std::vector<double> mean(static_cast<std::size_t>(d), 0.0), mean_direction = mean;
  for (const auto& [token, weight] : attention_mean(1)) {
    const double norm = r.key_norm(head, token);
    for (int c = 0; c < width; ++c) output[c] += weight * r.value(head, token, c);
    for (int c = 0; c < d; ++c) {
      mean[c] += r.key(head, token, c);
      mean_direction[c] += norm > 0.0 ? r.key(head, token, c) / norm : 0.0;
    }
  }
  const auto cosine = [&](const std::vector<double>& with, int token) {
    double dot = 0.0, square = 0.0;
    for (int c = 0; c < d; ++c) {
      dot += with[c] * r.key(head, token, c);
      square += with[c] * with[c];
    }
    const double lengths = std::sqrt(square) * r.key_norm(head, token);
    return lengths > 0.0 ? dot / lengths : 0.0;
  };
  Scores result;
  for (const int token : cache) {
    double value_square = 0.0, distance = 0.0, out_norm = 0.0;
    for (int c = 0; c < width; ++c) {
      value_square += r.value(head, token, c) * r.value(head, token, c);
      distance += std::pow(output[c] - r.value(head, token, c), 2.0);
    }
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      for (int column = 0; column < r.model().hidden_size; ++column) {
        double sum = 0.0;
        for (int c = 0; c < width; ++c) {
          sum += r.value(head, token, c) *
                 static_cast<double>(r.states().output_weights[query_head](c, column));
        }
        out_norm += std::abs(sum) / group;
      }
    }
    double x = 0.0;
    if (name == "attn_sum") {
      x = r.received(head).at(token);
    } else if (name == "cos_anchor") {
      x = cosine(mean_direction, token);
    } else if (name == "cos_mean") {
      x = cosine(mean, token);
    } else if (name == "key_norm") {
      x = r.key_norm(head, token);
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
      x = r.budget();
    } else {
      throw std::logic_error("no naive variable " + name);
    }
    result[token] = x;
  }
  return result;
}

NaiveScore expr() { return {.name = "expr", .score = expr_score, .accumulates = true}; }

}  // namespace kvloupe::naive::scores

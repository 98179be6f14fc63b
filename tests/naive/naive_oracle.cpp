// The oracle by brute force: every candidate's removal is tried and every output summed anew.

#include <algorithm>
#include <cmath>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

NaiveReplay::Scores NaiveReplay::oracle(int head, const Block& block) const {
  const int group = model_.group_size();
  const int tokens = static_cast<int>(states_.keys[head].rows());
  std::vector<int> judges;
  for (int t = block.end; t < std::min(tokens, block.end + policy_.score().count("horizon")); ++t) {
    judges.push_back(t);
  }
  if (judges.empty()) judges.push_back(block.end - 1);
  const auto output = [&](int query_head, int query, const std::vector<int>& present) {
    std::vector<double> sum(static_cast<std::size_t>(model_.head_dim), 0.0);
    for (const auto& [token, weight] : attention(query_head, query, present)) {
      for (int c = 0; c < model_.head_dim; ++c) {
        sum[c] += weight * value(head, token, c);
      }
    }
    return sum;
  };
  const auto error = [&](std::vector<int> present) {
    double square = 0.0;
    std::vector<int> all;
    for (int token = 0; token < tokens; ++token) {
      all.push_back(token);
      if (token >= block.end) present.push_back(token);
    }
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      for (const int query : judges) {
        const std::vector<double> is = output(query_head, query, present);
        const std::vector<double> should = output(query_head, query, all);
        for (int c = 0; c < model_.head_dim; ++c) {
          square += (is[c] - should[c]) * (is[c] - should[c]);
        }
      }
    }
    return square;
  };
  std::vector<int> left = caches_[head];
  Scores scores;
  for (const int token : left) scores[token] = static_cast<double>(left.size());
  const std::set<int> kept = protect(head, budget_);
  for (int place = 0; static_cast<int>(left.size()) > layer_budget(block); ++place) {
    int least = -1;
    double least_error = 0.0;
    for (const int token : left) {
      if (kept.count(token) == 1) continue;
      std::vector<int> without;
      for (const int other : left) {
        if (other != token) without.push_back(other);
      }
      const double found = error(without);
      if (least < 0 || found < least_error) {
        least = token;
        least_error = found;
      }
    }
    scores[least] = place;
    left.erase(std::find(left.begin(), left.end(), least));
  }
  return scores;
}

}  // namespace kvloupe::naive

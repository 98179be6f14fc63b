// The oracle by brute force: every candidate's removal is tried and every output summed anew.

#include <algorithm>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores oracle_score(const NaiveReplay& r, int head, const Block& block, int) {
  const int group = r.model().group_size();
  const int tokens = static_cast<int>(r.states().keys[head].rows());
  std::vector<int> judges;
  for (int t = block.end; t < std::min(tokens, block.end + r.part().count("horizon")); ++t) {
    judges.push_back(t);
  }
  if (judges.empty()) judges.push_back(block.end - 1);
  const auto zero = std::vector<double>(static_cast<std::size_t>(r.model().value_width()), 0.0);
  // The output that the query should get: over everything it could see, as captured.
  std::vector<int> all;
  for (int token = 0; token < tokens; ++token) all.push_back(token);
  std::map<std::pair<int, int>, std::vector<double>> should;
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (const int query : judges) {
      std::vector<double> sum = zero;
      for (const auto& [token, weight] :
           r.attention(query_head, query, all, &NaiveReplay::captured_logit)) {
        for (int c = 0; c < r.model().value_width(); ++c) {
          sum[c] += weight * static_cast<double>(r.states().values[head](token, c));
        }
      }
      should[{query_head, query}] = sum;
    }
  }
  const auto error = [&](std::vector<int> present) {
    double square = 0.0;
    for (int token = block.end; token < tokens; ++token) present.push_back(token);
    for (const auto& [judge, wanted] : should) {
      std::vector<double> is = zero;
      for (const auto& [token, weight] : r.attention(judge.first, judge.second, present)) {
        for (int c = 0; c < r.model().value_width(); ++c) is[c] += weight * r.value(head, token, c);
      }
      for (int c = 0; c < r.model().value_width(); ++c) {
        square += (is[c] - wanted[c]) * (is[c] - wanted[c]);
      }
    }
    return square;
  };
  std::vector<int> left = r.cache(head);
  Scores scores;
  for (const int token : left) scores[token] = static_cast<double>(left.size());
  const std::set<int> kept = r.protect(head, r.layer_budget(block));
  int place = 0;
  const int room = r.layer_budget(block) + r.beside_budget(head);
  for (; static_cast<int>(left.size()) > room; ++place) {
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
  // Remaining entries are ranked by the error that each alone would leave if it went next.
  std::vector<std::pair<double, int>> rest;
  for (const int token : left) {
    std::vector<int> without = left;
    without.erase(std::find(without.begin(), without.end(), token));
    const bool nothing_left =
        without.empty() && judges.front() < block.end && r.attending().sink_logits.empty();
    if (kept.count(token) == 0 && !nothing_left) rest.emplace_back(error(without), token);
  }
  std::sort(rest.begin(), rest.end());
  for (const auto& [missed, token] : rest) scores[token] = place++;
  return scores;
}

NaiveScore oracle() { return {.name = "oracle", .score = oracle_score}; }

}  // namespace kvloupe::naive::scores

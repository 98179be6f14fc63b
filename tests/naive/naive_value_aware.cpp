// Parts that read values: CAOTE, FastCAOTE and CriticalKV's second stage, in plain loops.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

std::vector<int> NaiveReplay::best(const Scores& scores, const std::vector<int>& among,
                                   const std::set<int>& kept) {
  std::vector<int> tokens;
  if (scores.empty()) return tokens;
  for (const int token : among) {
    if (kept.count(token) == 0) tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end(),
            [&](int a, int b) { return std::pair(scores.at(a), a) > std::pair(scores.at(b), b); });
  return tokens;
}

NaiveReplay::Scores NaiveReplay::value_aware(int head, const Scores& base) const {
  const bool fast = policy_.find("fastcaote") != nullptr;
  if (!fast && policy_.find("caote") == nullptr) return base;
  double least = 0.0;
  for (const auto& [token, score] : base) least = std::min(least, score);
  double sum = 0.0;
  for (const auto& [token, score] : base) sum += score - least;
  Scores h;
  for (const auto& [token, score] : base) {
    h[token] = sum > 0.0 ? (score - least) / sum : 1.0 / static_cast<double>(base.size());
  }
  Scores result;
  for (const auto& [j, own] : h) {
    // Without j, renormalised; for fastcaote the plain mean of all.
    double others = 0.0;
    for (const auto& [i, share] : h) others += i == j ? 0.0 : share;
    double square = 0.0;
    for (int c = 0; c < model_.value_width(); ++c) {
      double output = 0.0;
      for (const auto& [i, share] : h) {
        const double v = value(head, i, c);
        if (fast) output += v / static_cast<double>(h.size());
        if (!fast && i != j) output += share / others * v;
      }
      const double difference = output - value(head, j, c);
      square += difference * difference;
    }
    if (fast) {
      result[j] = own / std::max(others, 1e-6) * std::sqrt(square);
    } else {
      result[j] = others > 0.0 ? own * std::sqrt(square) : std::numeric_limits<float>::max();
    }
  }
  return result;
}

NaiveReplay::Scores NaiveReplay::critical_second(int head, const Block& block,
                                                 const Scores& base) const {
  const SpecPart& critical = *policy_.find("critical");
  const bool l1 = critical.word("norm") == "l1";
  const bool value_aware = policy_.find("caote") != nullptr || policy_.find("fastcaote") != nullptr;
  // h2o's sum runs over all rows seen.
  const bool sum =
      policy_.score().name == "h2o" && !value_aware && policy_.score().word("normalise") == "none";
  double least = 0.0;
  for (const auto& [token, score] : base) least = std::min(least, score);
  const int group = model_.group_size();
  Scores result;
  for (const auto& [token, score] : base) {
    double norm = 0.0;
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      double size = 0.0;
      for (int column = 0; column < model_.hidden_size; ++column) {
        double output = 0.0;
        for (int c = 0; c < model_.value_width(); ++c) {
          output += value(head, token, c) *
                    static_cast<double>(states_.output_weights[query_head](c, column));
        }
        size += l1 ? std::abs(output) : output * output;
      }
      norm += (l1 ? size : std::sqrt(size)) / group;
    }
    const double share = (score - least) / (sum ? still_seen(block) : 1);
    result[token] = (share + critical.number("eps")) * norm;
  }
  return result;
}

}  // namespace kvloupe::naive

#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores lagkv_score(const NaiveReplay& r, int head, const Block&, int) {
  const SpecPart& part = r.part();
  const int sinks = part.count("sinks"), lag = part.count("lag");
  const std::vector<int>& cache = r.cache(head);
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
    return with_protected(scores, r.cache(head));
  }
  const auto coordinate = [&](bool of_key, int token, int c) {
    return of_key ? r.key(head, token, c) : r.value(head, token, c);
  };
  for (int begin = 0; begin + 2 * lag <= n; begin += lag) {
    std::vector<double> sum(lag, 0.0);
    for (const bool of_key : {true, false}) {
      std::vector<double> deviations;
      const int d = of_key ? r.model().head_dim : r.model().value_width();
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

NaiveScore lagkv() { return {.name = "lagkv", .score = lagkv_score, .first_tokens = "sinks"}; }

}  // namespace kvloupe::naive::scores

#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

namespace {
double z_of(const std::vector<float>& changes, int token, int begin, int window) {
  std::vector<double> seen;
  for (int t = std::max(begin, token - window + 1); t <= token; ++t) seen.push_back(changes[t]);
  if (seen.size() < 2) return 0.0;
  double sum = 0.0, squares = 0.0;
  for (const double x : seen) sum += x;
  const double mean = sum / seen.size();
  for (const double x : seen) squares += std::pow(x - mean, 2.0);
  return (changes[token] - mean) / (std::sqrt(squares / seen.size()) + 1e-6);
}

Scores epikv_score(const NaiveReplay& r, int head, const Block&, int) {
  const SpecPart& part = r.part();
  const int layers = r.model().num_layers, prompt = r.prompt_length();
  const auto& a = r.pass().changes[part.share("a", layers)];
  const auto& b = r.pass().changes[part.share("b", layers)];
  Scores scores;
  for (const int token : r.cache(head)) {
    const int begin = token < prompt ? 1 : prompt;
    scores[token] =
        z_of(a, token, begin, part.count("window")) - z_of(b, token, begin, part.count("window"));
  }
  return scores;
}
}  // namespace

NaiveScore epikv() {
  return {.name = "epikv", .score = epikv_score, .last_entries = "recent", .last_share = 0.25};
}

}  // namespace kvloupe::naive::scores

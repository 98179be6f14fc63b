
#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores centrality_score(const NaiveReplay& r, int head, const Block&, int) {
  const SpecPart& part = r.part();
  const std::vector<int>& cache = r.cache(head);
  const std::size_t n = cache.size();
  std::vector<double> logits;
  for (const int token : cache) {
    const double base = part.word("base") == "uniform" ? 0.0 : -r.key_norm(head, token);
    logits.push_back(base / part.number("temperature"));
  }
  const std::vector<double> p = softmax(logits);
  std::vector<double> c = p;
  for (int step = 0; step < part.count("steps"); ++step) {
    std::vector<double> passed(n, 0.0);
    double all = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double lengths = r.key_norm(head, cache[i]) * r.key_norm(head, cache[j]);
        const double cosine = lengths == 0.0 ? 0.0 : r.product(head, cache[i], cache[j]) / lengths;
        passed[i] += (1.0 + cosine) / 2.0 * c[j];
      }
      all += passed[i];
    }
    const double damping = part.number("damping");
    for (std::size_t i = 0; i < n; ++i) {
      c[i] = damping * passed[i] / (all + 1e-8) + (1.0 - damping) * p[i];
    }
  }
  Scores scores;
  for (std::size_t i = 0; i < n; ++i) scores[cache[i]] = c[i];
  return scores;
}

NaiveScore centrality() {
  return {.name = "centrality",
          .score = centrality_score,
          .first_tokens = "sinks",
          .last_entries = "recent"};
}

}  // namespace kvloupe::naive::scores

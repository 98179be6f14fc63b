#include <algorithm>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores cur_score(const NaiveReplay& r, int head, const Block&, int) {
  const SpecPart& part = r.part();
  const std::string& of = part.word("of");
  const int window = part.count("window");
  const std::vector<int>& cache = r.cache(head);
  std::vector<double> keys, values;
  for (const int token : cache) {
    keys.push_back(r.product(head, token, token));
    values.push_back(r.value_norm(head, token, 2) * r.value_norm(head, token, 2));
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

NaiveScore cur() { return {.name = "cur", .score = cur_score, .first_tokens = "sinks"}; }

}  // namespace kvloupe::naive::scores

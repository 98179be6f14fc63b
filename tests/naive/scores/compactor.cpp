#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores compactor_score(const NaiveReplay& r, int head, const Block&, int budget) {
  const SpecPart& part = r.part();
  const int first = part.count("first"), last = part.count("last");
  const int heads = r.heads();
  std::vector<std::vector<int>> tokens(heads);
  std::vector<std::vector<double>> of_leverage(heads), of_attention(heads);
  for (int h = 0; h < heads; ++h) {
    const int n = static_cast<int>(r.cache(h).size());
    for (int i = 0; i < n - last; ++i) {
      if (r.cache(h)[i] >= first) tokens[h].push_back(r.cache(h)[i]);
    }
    of_leverage[h] = tokens[h].empty() ? std::vector<double>() : leverage_of(r, h, tokens[h]);
    const Scores received = chunk_attention(r, h, first, last);
    for (const int token : tokens[h]) {
      const auto found = received.find(token);
      of_attention[h].push_back(
          found == received.end() ? 0.0 : found->second * r.value_norm(h, token, 2));
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
  const double n = static_cast<double>(r.cache(head).size());
  const double blending = fixed != nullptr ? *fixed : std::max(0.0, 1.0 - budget / n);
  Scores scores;
  for (std::size_t i = 0; i < tokens[head].size(); ++i) {
    scores[tokens[head][i]] = blending * standard(of_leverage, of_leverage[head][i]) +
                              standard(of_attention, of_attention[head][i]);
  }
  return with_protected(scores, r.cache(head));
}

NaiveScore compactor() {
  return {.name = "compactor",
          .score = compactor_score,
          .first_tokens = "first",
          .last_entries = "last"};
}

}  // namespace kvloupe::naive::scores

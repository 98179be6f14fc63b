#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores noncausal_score(const NaiveReplay& r, int head, const Block&, int) {
  const Scores received = chunk_attention(r, head, 0, 0);
  std::vector<double> own;
  for (const int token : r.cache(head)) {
    own.push_back(received.at(token) * r.value_norm(head, token, 2));
  }
  own = pool(own, 3, false, static_cast<int>(own.size()));
  Scores scores;
  for (std::size_t i = 0; i < own.size(); ++i) scores[r.cache(head)[i]] = own[i];
  return scores;
}

NaiveScore noncausal() { return {.name = "noncausal", .score = noncausal_score}; }

}  // namespace kvloupe::naive::scores

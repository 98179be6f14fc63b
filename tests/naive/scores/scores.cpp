#include "tests/naive/scores/scores.h"

#include <algorithm>
#include <vector>

namespace kvloupe::naive {

const NaiveScore* find_score(const std::string& name) {
  static const std::vector<NaiveScore> all = {
#define KVLOUPE_NAIVE_SCORE(name) scores::name(),
      KVLOUPE_NAIVE_SCORES(KVLOUPE_NAIVE_SCORE)
#undef KVLOUPE_NAIVE_SCORE
  };
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const NaiveScore& score) { return score.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace kvloupe::naive

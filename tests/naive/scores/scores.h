#pragma once
// The twins of the scores, one line each. A line SCORE(name) declares `NaiveScore name()`, which
// the file of that name defines, and puts it into the table.

#include <string>

#include "tests/naive/naive_replay.h"
#include "tests/naive/scores/score_kit.h"

// clang-format off
#define KVLOUPE_NAIVE_SCORES(SCORE) \
  SCORE(sink) \
  SCORE(tova) \
  SCORE(h2o) \
  SCORE(snapkv) \
  SCORE(keydiff) \
  SCORE(keynorm) \
  SCORE(expected) \
  SCORE(qfilter) \
  SCORE(lagkv) \
  SCORE(noncausal) \
  SCORE(leverage) \
  SCORE(compactor) \
  SCORE(cur) \
  SCORE(capkv) \
  SCORE(dropkv) \
  SCORE(rkv) \
  SCORE(defensive) \
  SCORE(cakescore) \
  SCORE(lavascore) \
  SCORE(vatp) \
  SCORE(valuerange) \
  SCORE(vase) \
  SCORE(raas) \
  SCORE(longflow) \
  SCORE(thinkv) \
  SCORE(epikv) \
  SCORE(centrality) \
  SCORE(triattention) \
  SCORE(attentionmatching) \
  SCORE(random) \
  SCORE(oracle) \
  SCORE(expr)
// clang-format on

namespace kvloupe::naive {

/// A score in plain loops, and what it protects by itself.
struct NaiveScore {
  std::string name;
  /// By token of the head's cache; the budget is the layer's.
  Scores (*score)(const NaiveReplay& replay, int head, const Block& block, int budget);
  std::string first_tokens = {};  // the parameter that says how many are kept; empty: none
  std::string last_entries = {};
  double last_share = 1.0;   // of the budget, which these are at most
  bool accumulates = false;  // reads the attention received so far
  bool small = false;        // keeps the order of scores however small they are
};

/// nullptr for a score that is known before the first step.
const NaiveScore* find_score(const std::string& name);

namespace scores {
#define KVLOUPE_DECLARE_SCORE(name) NaiveScore name();
KVLOUPE_NAIVE_SCORES(KVLOUPE_DECLARE_SCORE)
#undef KVLOUPE_DECLARE_SCORE
}  // namespace scores

}  // namespace kvloupe::naive

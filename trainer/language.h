#pragma once
// Text that looks like plain English, in which the next word depends only on the current word. Most
// of the corpus consists of it. A model does not need attention to predict it. So heads that look
// for something else rest most of the time, as in real text.

#include <vector>

#include "trainer/random.h"
#include "trainer/vocabulary.h"

namespace kvloupe::train {

/// A first-order Markov chain over words. The language fixes which words may follow which: the same
/// in every sequence and for every seed.
class Language {
 public:
  explicit Language(const Vocabulary& vocabulary);

  /// A word that may follow `current`, which is "." before a sentence. Throws WorkError for a token
  /// that is not a word of a story.
  TokenId next(TokenId current, Random& random) const;

  struct Follower {
    TokenId id = 0;
    double weight = 0.0;  // share of the draws; the followers of a word sum to one
  };
  /// All tokens that may follow a token, for most words about a dozen; empty if the token is not a
  /// word of a story.
  const std::vector<Follower>& followers(TokenId current) const;

 private:
  std::vector<std::vector<Follower>> followers_;  // [token]
};

}  // namespace kvloupe::train

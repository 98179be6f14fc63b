#pragma once
// Plain-English-looking text in which the next word follows from the current word alone. It is
// what most of the corpus is made of: a model needs no attention to foretell it, so that heads that
// look for something else have nothing to do most of the time, as in the text of larger models.

#include <vector>

#include "capture/train/random.h"
#include "capture/train/vocabulary.h"

namespace kvloupe::train {

/// A first-order Markov chain over words. Which words may follow which is part of the language:
/// the same in every sequence and for every seed.
class Language {
 public:
  explicit Language(const Vocabulary& vocabulary);

  /// A word that may follow `current`, which is "." before a sentence. Reads nothing else.
  /// Throws WorkError for a token that is not a word of a story.
  TokenId next(TokenId current, Random& random) const;

  struct Follower {
    TokenId id = 0;
    double weight = 0.0;  // share of the draws; the followers of a word sum to one
  };
  /// All that may follow a token, most words having a dozen; empty for no word of a story.
  const std::vector<Follower>& followers(TokenId current) const;

 private:
  std::vector<std::vector<Follower>> followers_;  // [token]
};

}  // namespace kvloupe::train

#pragma once
// The corpus: plain-English tales in which each word follows from the previous one, except for a
// few that must be looked up; little stories with fixed patterns; ledgers, lists and ciphers of
// random words that are quoted later; needles and facts with questions; and random segments that
// repeat. No outside text. Every sequence follows from (seed, index) alone, so training can resume
// anywhere and generate in parallel.

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/language.h"
#include "trainer/random.h"
#include "trainer/vocabulary.h"

namespace kvloupe::train {

/// The kind of a token for the model that must predict it.
enum class Role : std::uint8_t {
  text,    // ordinary: predictable from grammar at best
  quoted,  // follows from an earlier passage that is being repeated
  answer   // the word or number that was asked for
};

/// One training sequence: BOS, then text, cut at the length asked for.
struct Sequence {
  std::vector<TokenId> ids;
  std::vector<Role> roles;  // [ids.size()], of each token itself
};

/// Shares of the kinds of passages. The weights need not sum to one.
struct Mix {
  double drill = 0.0;       // share of whole sequences that are one random segment over and over
  double repetition = 0.2;  // share of whole sequences: random segments, some of them repeated
  double quiz = 0.0;        // share of whole sequences: several needles, then each asked for once
  double cipher = 1.0;      // a run of random words
  double ledger = 1.0;      // random words with numbers or commas
  double story = 1.0;       // one to three sentences of fixed patterns
  double tale = 0.0;        // one to three sentences of the first-order language
  double dice = 0.0;        // a run of digits or colours
  double fact = 0.5;        // a sentence somebody may ask about later
  double needle = 1.0;      // "One of the special magic numbers for ... is: ..."
  double recall = 0.35;     // share of passages that quote or ask, where there is something
  double paragraph = 0.0;   // share of passages that end a line
  double echo = 0.1;        // share of a tale's people, things and places that "again" repeats
  double aside = 0.2;       // share of its sentences after which is asked who, what or where
  int segment = 40;         // words of the longest drilled segment; repetition's: a fifth more
  int lexicon = 0;          // how many words such segments are drawn from; 0: all there are
};

/// A prompt with a known answer: a haystack with needles, then one question.
struct NeedlePrompt {
  std::vector<TokenId> ids;           // BOS, context with the needles, question
  std::vector<TokenId> answers;       // [needles], in the order of the needles
  std::vector<TokenId> words;         // [needles], what each number is for
  std::vector<int> needle_begin;      // [needles], index of each needle's first token
  std::vector<int> needle_end;        // [needles], one past its last
  std::vector<int> answer_positions;  // [needles], index of each number in the context
  int question_begin = 0;             // index of the question's first token
  int asked = 0;                      // which needle the question is about
};

/// Generates sequences and prompts; thread-safe.
class Corpus {
 public:
  Corpus(const Vocabulary& vocabulary, std::uint64_t seed)
      : vocabulary_(vocabulary), language_(vocabulary), seed_(seed) {}

  /// A training sequence of exactly `length` tokens, at least 2.
  Sequence sequence(std::uint64_t index, int length, const Mix& mix) const;

  /// A prompt of at most `length` tokens, filled with whole sentences, with needles at random
  /// depths in a haystack of stories, ledgers and ciphers. `asked` is drawn at random. These
  /// prompts differ from the sequences of sequence(), so they were never in the training. Throws
  /// WorkError if the length has no room for the needles and the question.
  NeedlePrompt needle_prompt(std::uint64_t index, int length, int needles) const;

  /// The question about one word, up to and including the last token before the answer.
  std::vector<TokenId> question(TokenId word) const;

 private:
  const Vocabulary& vocabulary_;
  Language language_;
  std::uint64_t seed_;
};

}  // namespace kvloupe::train

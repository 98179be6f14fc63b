#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/study/needle_template.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// A prompt with a known answer.
struct NeedleTask {
  TokenSequence tokens;    // BOS, filler with the needle and distractors, question
  int question_begin = 0;  // the question's first token
  std::string answer;      // the number in the answer, in digits
};

/// The place of the needle in question, and its haystack.
struct NeedleCase {
  int length = 0;      // largest number of tokens of the prompt
  double depth = 0.0;  // percent of the filler before the needle in question
  int sample = 0;
};

/// Makes prompts of filler sentences for one model. The content of a prompt follows from the seed,
/// the length and the sample; the depth only moves the needles.
class Haystack {
 public:
  /// Both must outlive the haystack.
  Haystack(const NeedleTemplate& needles, const Tokenizer& tokenizer, std::uint64_t seed);

  /// `needles` numbers for different words: the one in question at the depth, the others spread
  /// evenly from there. Throws UsageError if the length has no room for them.
  NeedleTask needle(const NeedleCase& wanted, int needles) const;
  /// Filler alone, exactly `length` tokens with BOS.
  TokenSequence text(int length, int sample) const;

 private:
  int tokens_in(const std::string& text) const;
  int tokens_around() const;  // of a prompt: BOS, or what a chat template writes
  std::uint64_t random(int length, int sample, std::uint64_t draw) const;

  const NeedleTemplate& template_;
  const Tokenizer& tokenizer_;
  std::uint64_t seed_;
  std::vector<int> sentence_tokens_;  // [template_.filler]
};

}  // namespace kvloupe

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/eval/needle_template.h"
#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// A prompt whose answer is known.
struct NeedleTask {
  TokenSequence tokens;    // BOS, filler with the needles, question
  int question_begin = 0;  // the question's first token
  std::string answer;      // the number asked for, in digits
};

/// Where the needle asked for lies, and in which haystack.
struct NeedleCase {
  int length = 0;      // most tokens of the prompt
  double depth = 0.0;  // percent of the filler before the needle asked for
  int sample = 0;
};

/// Makes prompts of filler sentences for one model. What a prompt holds follows from the seed, the
/// length and the sample; the depth moves its needles alone.
class Haystack {
 public:
  /// Both must outlive the haystack.
  Haystack(const NeedleTemplate& needles, const Tokenizer& tokenizer, std::uint64_t seed);

  /// `needles` numbers for different words, the one asked for at the depth, the others spread
  /// evenly from there. Throws UsageError where the length has no room for them.
  NeedleTask needle(const NeedleCase& wanted, int needles) const;
  /// Filler alone, exactly `length` tokens with BOS.
  TokenSequence text(int length, int sample) const;

 private:
  int tokens_in(const std::string& text) const;
  std::uint64_t random(int length, int sample, std::uint64_t draw) const;

  const NeedleTemplate& template_;
  const Tokenizer& tokenizer_;
  std::uint64_t seed_;
  std::vector<int> sentence_tokens_;  // [template_.filler]
};

}  // namespace kvloupe

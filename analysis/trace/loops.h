#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

/// A span of tokens that follows itself again and again.
struct Loop {
  int first = 0;   // the token at which the first occurrence begins
  int length = 0;  // tokens of one occurrence: the smallest number after which the text repeats
  int tokens = 0;  // of all occurrences; the last one may be cut short
  int repeats() const { return tokens / length; }
  bool operator==(const Loop&) const = default;
};

/// The loops of a text, and their share of it.
struct Loops {
  std::vector<Loop> spans;  // by first token; a loop inside another one is left out
  int tokens = 0;           // that are part of a loop
  int of = 0;               // all tokens that were looked at
  double share() const { return of > 0 ? static_cast<double>(tokens) / of : 0.0; }
};

/// A span counts as a loop if it stands at least three times in a row and takes 16 tokens or more
/// in all. Longer spans than 1024 tokens are not looked for. Our own rule: papers count loops by
/// eye, or by n-grams.
inline constexpr int kLoopRepeats = 3;
inline constexpr int kLoopTokens = 16;
inline constexpr int kLongestLoop = 1024;

/// The loops of ids[first, end): the model's text after a prompt of `first` tokens.
Loops find_loops(std::span<const std::int32_t> ids, int first);

}  // namespace kvloupe

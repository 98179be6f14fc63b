#pragma once

#include <vector>

#include "capture/tokenizer/prompt.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// Which tokens of a sequence are structural (structural_tokens.h), while the sequence grows.
class StructuralSequence {
 public:
  /// `tokenizer` must outlive it.
  StructuralSequence(const TokenSequence& tokens, const Tokenizer& tokenizer);
  /// The same sequence with more tokens at its end.
  void extend(const TokenSequence& tokens);
  /// [T so far]; stays at its address.
  const std::vector<char>& flags() const { return flags_; }

 private:
  const Tokenizer& tokenizer_;
  std::vector<char> flags_;
};

}  // namespace kvloupe

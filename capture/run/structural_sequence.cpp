#include "capture/run/structural_sequence.h"

#include "analysis/trace/structural_tokens.h"

namespace kvloupe {

StructuralSequence::StructuralSequence(const TokenSequence& tokens, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer) {
  extend(tokens);
}

void StructuralSequence::extend(const TokenSequence& tokens) {
  for (std::size_t i = flags_.size(); i < tokens.ids.size(); ++i) {
    const bool border =
        i == 0 || (!tokens.segment.empty() && (tokens.segment[i] != tokens.segment[i - 1] ||
                                               tokens.names[tokens.segment[i]] == "special"));
    flags_.push_back(border || is_structural(tokenizer_.piece_bytes(tokens.ids[i])) ? 1 : 0);
  }
}

}  // namespace kvloupe

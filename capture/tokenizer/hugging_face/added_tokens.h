#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/tokenizer/hugging_face/aligned_text.h"
#include "capture/tokenizer/hugging_face/bpe_model.h"
#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/normaliser.h"

namespace kvloupe {

/// Tokens that are found in a text before anything else, such as <|im_start|>.
class AddedTokens {
 public:
  struct Token {
    std::int32_t id = 0;
    std::string content;
    bool special = false;      // stands for no text
    bool single_word = false;  // not inside a word
    bool lstrip = false;       // includes the white space before it
    bool rstrip = false;       // includes the white space after it
    bool normalized = false;   // found in the normalised text, else in the original
  };

  /// Reads "added_tokens" of a tokenizer.json. Throws FileError: ids or contents that contradict
  /// each other or the model's vocabulary.
  AddedTokens(const JsonPart& root, const BpeModel& model, const Normaliser& normaliser);

  const std::vector<Token>& tokens() const { return tokens_; }

  /// The text with its added tokens as separate pieces; each stretch between them is normalised
  /// separately. At the leftmost place the longest token wins.
  PieceList extract(const AlignedText& text, const Normaliser& normaliser,
                    const Limits& limits) const;

 private:
  /// Contents by their bytes.
  class Trie {
   public:
    /// If two tokens have the same content, the first one is used.
    void add(std::string_view content, std::int32_t token);
    /// The longest content that `text` starts with: its index and size; size 0 if there is none.
    std::pair<std::int32_t, std::size_t> longest(std::string_view text) const;

   private:
    std::unordered_map<std::uint64_t, std::uint32_t> children_;  // by node · 256 + byte
    std::vector<std::int32_t> token_{-1};                        // of each node
  };

  void cut(const AlignedText& text, const Trie& trie, PieceList& into) const;

  std::vector<Token> tokens_;
  Trie plain_;
  Trie normalised_;
};

}  // namespace kvloupe

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/piece_table.h"

namespace kvloupe {

/// Ids a tokenizer.json may use: 0 … 2^21 − 1.
constexpr std::int64_t kLargestTokenId = (1 << 21) - 1;

/// Byte-pair encoding (Sennrich et al. 2016) as the "model" of a tokenizer.json describes it:
/// starting from single characters, the two neighbours whose merge is first in the list are joined
/// (the leftmost among equals), until no merge applies.
class BpeModel {
 public:
  /// One token of a word: its bytes [begin, end).
  struct Token {
    std::int32_t id = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Throws FileError: a vocabulary or merges that fit no BPE; UnsupportedTokenizer: another model.
  explicit BpeModel(const JsonPart& model);

  const PieceTable& pieces() const { return pieces_; }
  /// −1 where there is none.
  std::int32_t find(std::string_view piece) const { return pieces_.find(piece); }

  /// The tokens of short stretches of text that were seen before, because words repeat. One cache
  /// per encoded text; refers to that text.
  class Cache;

  /// Appends the tokens of one word (UTF-8). O(n log n). A character without a piece becomes its
  /// bytes if the model has a byte fallback, or else the unknown token if there is one, or else
  /// nothing, as in the tokenizers library. Throws WorkError if the unknown token is needed and has
  /// no id.
  void encode(std::string_view word, Cache& cache, std::vector<Token>& into) const;

 private:
  struct Symbol;

  void read_vocabulary(const JsonPart& model);
  void read_merges(const JsonPart& model);
  void read_meetings(std::string_view left, std::string_view right);
  std::int32_t character_id(std::string_view character) const;
  std::vector<Symbol> symbols_of(std::string_view word) const;
  void encode_stretch(std::string_view text, Cache& cache, std::vector<Token>& into) const;
  void merge_few(std::vector<Symbol>& symbols) const;
  void merge_many(std::vector<Symbol>& symbols) const;

  PieceTable pieces_;
  MergeTable merges_;
  MergeTable meetings_;  // symbols that some merge has side by side where its two pieces meet
  std::vector<std::int32_t> character_ids_;  // of the characters below U+10000 as pieces; −1: none
  std::array<std::int32_t, 256> byte_ids_{};
  std::string unknown_text_;
  std::int32_t unknown_ = -1;
  bool has_unknown_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
};

class BpeModel::Cache {
 public:
  /// Null if this stretch was not seen before. Valid until the next call of keep.
  const std::vector<Token>* find(std::string_view stretch) const;
  /// Positions of tokens count from the stretch's beginning. Drops all stretches when there are too
  /// many.
  void keep(std::string_view stretch, std::vector<Token> tokens);

 private:
  std::unordered_map<std::string_view, std::vector<Token>> known_;
};

}  // namespace kvloupe

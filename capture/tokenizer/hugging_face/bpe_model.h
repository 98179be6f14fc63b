#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/tokenizer/hugging_face/json_part.h"

namespace kvloupe {

/// Ids a tokenizer.json may use: 0 … 2^21 − 1.
constexpr std::int64_t kLargestTokenId = (1 << 21) - 1;

/// Hashes std::string and std::string_view alike, so that a look-up copies nothing.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using TextIds = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

/// The byte that a piece "<0xNN>" stands for; −1 for every other piece.
int byte_of_piece(std::string_view piece);

/// Byte-pair encoding (Sennrich et al. 2016) as the "model" of a tokenizer.json describes it: from
/// single characters, the two neighbours whose merge stands first in the list are joined, the
/// leftmost first among equals, until none is left.
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

  const TextIds& ids() const { return ids_; }
  /// −1 where there is none.
  std::int32_t find(std::string_view piece) const;

  /// Appends the tokens of one word (UTF-8). O(n log n). A character without a piece becomes its
  /// bytes, where the model falls back to them; else the unknown token, where it has one; else
  /// nothing, as in the tokenizers library. Throws WorkError where the unknown token is needed and
  /// has no id.
  void encode(std::string_view word, std::vector<Token>& into) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    std::int32_t id = 0;
  };
  struct Symbol;

  void read_vocabulary(const JsonPart& model);
  void read_merges(const JsonPart& model);
  std::vector<Symbol> symbols_of(std::string_view word) const;
  void merge_all(std::vector<Symbol>& symbols) const;
  const Merge* find_merge(std::int32_t left, std::int32_t right) const;

  TextIds ids_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by left id · 2^32 + right id
  std::array<std::int32_t, 256> byte_ids_{};
  std::int32_t unknown_ = -1;
  bool has_unknown_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
};

}  // namespace kvloupe

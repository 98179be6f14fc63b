#pragma once
// The word-level vocabulary of the demo model, in one order for the corpus generator and the
// tokenizer file.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvloupe::train {

using TokenId = std::int32_t;

/// How SentencePiece treats a piece (sentencepiece_model.proto, SentencePiece.Type).
enum class PieceType : int { normal = 1, unknown = 2, control = 3, byte = 6 };

/// One entry of the vocabulary. `text` is the piece as the tokenizer file holds it: a word that
/// follows a space starts with U+2581.
struct Piece {
  std::string text;
  PieceType type = PieceType::normal;
  float score = 0.0F;
};

/// The pieces, id = index: unknown, BOS, EOS, 256 bytes, the space mark, punctuation, letters and
/// digits, numbers 0 to 99, then the words of words.h.
class Vocabulary {
 public:
  static constexpr TokenId kUnknown = 0;
  static constexpr TokenId kBos = 1;
  static constexpr TokenId kEos = 2;
  static constexpr TokenId kNewline = 3 + '\n';  // the byte piece

  Vocabulary();

  int size() const { return static_cast<int>(pieces_.size()); }
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Id of a word of words.h or a number 0 to 99, as it stands after a space. Throws WorkError for
  /// a word that is not in the vocabulary.
  TokenId word(std::string_view word) const;
  /// Id of a number 0 to 99 after a space.
  TokenId number(int value) const;
  /// Id of a punctuation mark, which follows without a space. Throws WorkError as word() does.
  TokenId mark(char character) const;

  /// The text that the tokenizer gives back: a space before every word but the first, newlines
  /// unchanged, other bytes and control pieces left out.
  std::string text(std::span<const TokenId> ids) const;

 private:
  void add(std::string text, PieceType type, float score);
  TokenId find(const std::string& text) const;

  std::vector<Piece> pieces_;
  std::unordered_map<std::string, TokenId> ids_;
};

}  // namespace kvloupe::train

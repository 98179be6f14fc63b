#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe {

/// The parts of a SentencePiece model file (tokenizer.model, a protocol buffer) that encoding and
/// decoding need.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };
  enum class PieceType {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  struct Piece {
    std::string text;  // with ▁ for a space; <0xNN> for a byte
    float score = 0.0F;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces;  // index = token id
  Kind kind = Kind::unigram;
  bool byte_fallback = false;            // unknown characters become byte pieces
  bool whitespace_as_suffix = false;     // ▁ ends a word instead of starting it
  bool add_dummy_prefix = true;          // ▁ before the text
  bool remove_extra_whitespaces = true;  // at both ends and in runs
  bool escape_whitespaces = true;        // spaces become ▁
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
};

/// Reads a model file. Throws FileError: unreadable, not a SentencePiece model, truncated, pieces
/// that are missing, empty or repeated, or a part that kvloupe does not support: word and character
/// models, and character maps (a normaliser other than "identity").
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace kvloupe

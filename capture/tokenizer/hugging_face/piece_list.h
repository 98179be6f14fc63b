#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "capture/tokenizer/hugging_face/aligned_text.h"

namespace kvloupe {

/// A text divided into pieces, in order and without gaps: stretches that are still text, and tokens
/// already found. No piece is empty.
struct PieceList {
  struct Piece {
    std::size_t begin = 0;  // bytes of `text`
    std::size_t end = 0;
    std::int32_t token = -1;  // −1: still text
  };

  AlignedText text;
  std::vector<Piece> pieces;

  /// Appends bytes [begin, end) of `from` as one piece, if there are any.
  void append(const AlignedText& from, std::size_t begin, std::size_t end, std::int32_t token = -1);

  /// The list with every piece of text replaced by the result of `change`, which may be several
  /// pieces. Pieces taken from other texts keep their origins.
  PieceList changed(
      const std::function<void(const AlignedText& piece, PieceList& into)>& change) const;
};

}  // namespace kvloupe

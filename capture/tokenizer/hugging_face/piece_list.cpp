#include "capture/tokenizer/hugging_face/piece_list.h"

namespace kvloupe {

void PieceList::append(const AlignedText& from, std::size_t begin, std::size_t end,
                       std::int32_t token) {
  if (begin == end) return;
  const std::size_t at = text.size();
  text.append(from, begin, end);
  pieces.push_back({at, text.size(), token});
}

PieceList PieceList::changed(
    const std::function<void(const AlignedText& piece, PieceList& into)>& change) const {
  PieceList result;
  for (const Piece& piece : pieces) {
    if (piece.token >= 0) {
      result.append(text, piece.begin, piece.end, piece.token);
      continue;
    }
    AlignedText part;
    part.append(text, piece.begin, piece.end);
    change(part, result);
  }
  return result;
}

}  // namespace kvloupe

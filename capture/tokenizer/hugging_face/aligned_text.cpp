#include "capture/tokenizer/hugging_face/aligned_text.h"

#include <limits>

#include "analysis/base/core/error.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
}

AlignedText::AlignedText(std::string_view original) {
  if (original.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw WorkError("a text of 4 GiB or more cannot be cut into tokens; shorten it");
  }
  text_.reserve(original.size());
  origins_.reserve(original.size());
  for (std::size_t at = 0; at < original.size();) {
    const std::size_t length = character_length(original.substr(at));
    const std::size_t end = at + (length == 0 ? 1 : length);
    append(length == 0 ? kReplacement : original.substr(at, length),
           {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
    at = end;
  }
}

AlignedText::Range AlignedText::origin(std::size_t begin, std::size_t end) const {
  if (begin < end) return {origins_[begin].begin, origins_[end - 1].end};
  if (begin < origins_.size()) return {origins_[begin].begin, origins_[begin].begin};
  if (begin > 0) return {origins_[begin - 1].end, origins_[begin - 1].end};
  return {};
}

void AlignedText::append(std::string_view bytes, Range from) {
  text_ += bytes;
  origins_.insert(origins_.end(), bytes.size(), from);
}

void AlignedText::append(const AlignedText& other, std::size_t begin, std::size_t end) {
  text_ += other.view(begin, end);
  origins_.insert(origins_.end(), other.origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                  other.origins_.begin() + static_cast<std::ptrdiff_t>(end));
}

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

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// UTF-8 text during tokenization, with the bytes of the original text that each of its bytes came
/// from. Inserted text, such as a space before the first word, came from an empty range.
class AlignedText {
 public:
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  AlignedText() = default;
  /// The original itself; each byte that is not UTF-8 becomes U+FFFD. Throws WorkError: 4 GiB or
  /// more.
  explicit AlignedText(std::string_view original);

  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  std::string_view view(std::size_t begin, std::size_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  /// The range that the bytes [begin, end) came from; if begin = end, the empty range at that
  /// place.
  Range origin(std::size_t begin, std::size_t end) const;

  void append(std::string_view bytes, Range from);
  /// Appends the bytes [begin, end) of another text with their origins.
  void append(const AlignedText& other, std::size_t begin, std::size_t end);

 private:
  std::string text_;
  std::vector<Range> origins_;  // [text_.size()]; all bytes of a character have the same
};

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

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/scene/text_metrics.h"

namespace kvloupe::figure {

/// Whether glyphs of this text depend on their neighbours: it holds letters that join, stack or run
/// from right to left, or marks upon letters. Otherwise a glyph per character, side by side, is how
/// it is written.
bool needs_shaping(std::string_view text);

/// Sets such text with HarfBuzz, right-to-left parts ordered by the Unicode bidirectional algorithm
/// (FriBidi) in a line that runs from left to right, as SVG has it. Not thread-safe.
class TextShaper {
 public:
  /// The face for one grapheme; `previous` is that of the one before it, −1 at the start.
  using ChooseFace = std::function<int(std::u32string_view grapheme, int previous)>;
  /// The file that holds a face.
  using FindFace = std::function<FontFace(int face)>;

  TextShaper(ChooseFace choose, FindFace find);
  ~TextShaper();
  TextShaper(const TextShaper&) = delete;
  TextShaper& operator=(const TextShaper&) = delete;

  /// From left to right. Latin, Greek, Cyrillic and CJK letters get neither kerning nor optional
  /// ligatures, as in text that needs no shaping.
  std::vector<Glyph> shape(std::string_view text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Characters that show nothing themselves: joiners, direction marks, variation selectors.
bool is_ignorable(char32_t character);

/// A letter and a mark as one character; 0 if there is none.
char32_t composed(char32_t letter, char32_t mark);

}  // namespace kvloupe::figure

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// One font file in use.
struct FontFace {
  std::string path;
  int index = 0;  // within a collection
  std::string family;
  bool bold = false;
};

/// A glyph of a laid-out line. Lengths in em: multiply by the text's size.
struct Glyph {
  int face = 0;             // index into TextMetrics::faces()
  std::uint32_t index = 0;  // in that font; 0 is its "missing" box
  std::size_t byte = 0;     // where its cluster of characters starts in the text
  double x = 0.0;           // the pen, from the start of the line
  double advance = 0.0;
  double right = 0.0;  // of the pen: where the glyph is drawn
  double up = 0.0;     // of the baseline
  int run = 0;         // glyphs of one face and direction, of consecutive characters
  bool right_to_left = false;
};

/// Measures and lays out text, once for all back ends: Inter, Inter Bold, JetBrains Mono, and per
/// character DejaVu Sans, then any other installed font that has it. Unhinted advances in font
/// units, no kerning, so that a width is a sum and the same at every size and on every device. Text
/// of other scripts (Arabic, Devanagari, marks upon letters) is shaped by HarfBuzz; shaped text is
/// kept for the next time. Thread-safe.
class TextMetrics {
 public:
  /// Finds the fonts through Fontconfig. Inter and JetBrains Mono may be missing (DejaVu stands in;
  /// see notes()); throws WorkError naming the Debian packages when DejaVu is missing too.
  TextMetrics();
  ~TextMetrics();
  TextMetrics(const TextMetrics&) = delete;
  TextMetrics& operator=(const TextMetrics&) = delete;

  /// Advance in points. Invalid UTF-8 counts as U+FFFD.
  double width(std::string_view text, Font font, double size) const;
  /// Glyphs from left to right, whatever the order of reading.
  std::vector<Glyph> layout(std::string_view text, Font font) const;
  /// The longest beginning of `text` that fits into `width` points, with … where it was cut. Never
  /// cuts a letter from its marks.
  std::string fit(std::string_view text, Font font, double size, double width) const;
  /// Grows as layout() meets characters that need another font; indices stay.
  FontFace face(int index) const;
  /// Ascent and descent of a font together, in em.
  double line_height(Font font) const;
  /// Height of a capital H in em, for centring on a line.
  double cap_height() const;
  /// Notes for the user: fonts that are missing and the package that has them.
  const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Decodes one character at `byte` and moves behind it; U+FFFD for invalid UTF-8.
std::uint32_t next_character(std::string_view text, std::size_t& byte);

}  // namespace kvloupe::figure

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
  int face = 0;                 // index into TextMetrics::faces()
  std::uint32_t index = 0;      // in that font; 0 is its "missing" box
  std::uint32_t character = 0;  // Unicode
  std::size_t byte = 0;         // where the character starts in the text
  double x = 0.0;               // from the start of the line
  double advance = 0.0;
};

/// Measures and lays out text, once for all back ends: Inter, Inter Bold, JetBrains Mono, and per
/// character DejaVu Sans, then any other installed font that has it. Unhinted advances in font
/// units, no kerning, so that a width is a sum and the same at every size and on every device.
/// Thread-safe.
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
  std::vector<Glyph> layout(std::string_view text, Font font) const;
  /// The longest beginning of `text` that fits into `width` points, with … where it was cut.
  std::string fit(std::string_view text, Font font, double size, double width) const;
  /// Grows as layout() meets characters that need another font; indices stay.
  FontFace face(int index) const;
  /// Height of a capital H in em, for centring on a line.
  double cap_height() const;
  /// What a person should know: fonts that are missing and the package that has them.
  const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Decodes one character at `byte` and moves behind it; U+FFFD for what is no valid UTF-8.
std::uint32_t next_character(std::string_view text, std::size_t& byte);

}  // namespace kvloupe::figure

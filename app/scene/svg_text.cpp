#include "app/scene/svg_text.h"

#include <fmt/format.h>

#include "app/scene/text_metrics.h"
#include "app/scene/text_shaper.h"

namespace kvloupe::figure {

std::string xml_text(std::string_view text) {
  std::string out;
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t start = byte;
    const std::uint32_t c = next_character(text, byte);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default: {
        const bool allowed =
            c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c != 0xFFFE && c != 0xFFFF);
        if (allowed && c != 0xFFFD) {
          out += text.substr(start, byte - start);
        } else {
          out += "\xEF\xBF\xBD";
        }
      }
    }
  }
  return out;
}

std::string shaping_attributes(const Text& text) {
  if (!needs_shaping(text.text) || !(text.width > 0)) return {};
  // DejaVu Sans Mono squeezes Arabic into its columns; paper has DejaVu Sans.
  const char* families =
      text.font == Font::mono ? ";font-family:'JetBrains Mono','DejaVu Sans',monospace" : "";
  return " textLength=\"" + xml_number(text.width) +
         "\" lengthAdjust=\"spacingAndGlyphs\""
         " style=\"font-kerning:auto;font-variant-ligatures:normal" +
         families + '"';
}

std::string xml_number(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

}  // namespace kvloupe::figure

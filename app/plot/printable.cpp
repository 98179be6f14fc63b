#include "app/plot/printable.h"

#include <fmt/format.h>

namespace kvloupe::figure {

namespace {
constexpr std::string_view kSpaceMark = "▁";
}

bool is_newline(std::string_view text) { return text == "\n"; }

std::string printable(std::string_view text) {
  if (text.empty()) return "∅";
  if (is_newline(text)) return "↵";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (text.substr(i).starts_with(kSpaceMark)) {
      out += ' ';
      i += kSpaceMark.size() - 1;
    } else if (c == '\n') {
      out += "↵";
    } else if (c == '\t') {
      out += "→";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace kvloupe::figure

#include "analysis/base/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "analysis/base/text/utf8.h"

namespace kvloupe {

namespace {
/// `text` with '?' for each control character that is not in `allowed`: terminals also obey U+0080
/// to U+009F.
std::string without_controls(std::string_view text, std::string_view allowed) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool two = c == 0xC2 && i + 1 < text.size() && continues_character(text[i + 1]) &&
                     static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool control = (c < 0x20 || c == 0x7F) && allowed.find(text[i]) == allowed.npos;
    result += two || control ? '?' : text[i];
    if (two) ++i;
  }
  return result;
}
}  // namespace

std::string in_one_line(std::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  const auto inside_character = [&](std::size_t i) {
    return i < text.size() && continues_character(text[i]);
  };
  for (int back = 0; back < 3 && end > 0 && inside_character(end); ++back) --end;
  return escape_invalid_utf8(without_controls(text.substr(0, end), "")) +
         (end < text.size() ? "..." : "");
}

std::string in_lines(std::string_view text) {
  return escape_invalid_utf8(without_controls(text, "\n\t"));
}

std::string in_quotes(std::string_view text, std::size_t most) {
  return '"' + in_one_line(text, most) + '"';
}

std::string table_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

std::string latex_text(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 36> kSpelled = {
      {{"\\", "\\textbackslash{}"},
       {"~", "\\textasciitilde{}"},
       {"^", "\\textasciicircum{}"},
       {"<", "\\textless{}"},
       {">", "\\textgreater{}"},
       {"|", "\\textbar{}"},
       {"\"", "\\textquotedbl{}"},
       {"&", "\\&"},
       {"%", "\\%"},
       {"$", "\\$"},
       {"#", "\\#"},
       {"_", "\\_"},
       {"{", "\\{"},
       {"}", "\\}"},
       {"W_O", "$W_O$"},
       {"α", "$\\alpha$"},
       {"ε", "$\\varepsilon$"},
       {"θ", "$\\theta$"},
       {"ρ", "$\\rho$"},
       {"σ", "$\\sigma$"},
       {"Σ", "$\\sum$"},
       {"Δ", "$\\Delta$"},
       {"ℒ", "$\\mathcal{L}$"},
       {"√", "$\\surd$"},
       {"‖", "$\\Vert$"},
       {"′", "$'$"},
       {"≤", "$\\le$"},
       {"≥", "$\\ge$"},
       {"×", "$\\times$"},
       {"–", "--"},
       {"…", "\\dots{}"},
       {"†", "$^{\\dagger}$"},
       {"≈", "$\\approx$"},
       {"−", "$-$"},
       {"\u00A0", "~"},      // a space that does not break
       {"\u2009", "\\,"}}};  // the thin space between thousands
  std::string result;
  while (!text.empty()) {
    std::string_view read = text.substr(0, 1), written = read;
    for (const auto& [from, to] : kSpelled) {
      if (text.starts_with(from)) std::tie(read, written) = std::pair(from, to);
    }
    result += written;
    text.remove_prefix(read.size());
  }
  return result;
}

std::string duration_text(double seconds) {
  constexpr double kMost = 1e8;  // three years
  const auto whole = [](double value) { return static_cast<int>(std::ceil(value)); };
  const double known = std::isfinite(seconds) ? std::clamp(seconds, 1.0, kMost) : 1.0;
  if (known <= 10.0) return fmt::format("about {} s", whole(known));
  if (known <= 90.0) return fmt::format("about {} s", 10 * whole(known / 10.0));
  const int minutes = whole(known / 60.0);
  if (minutes < 60) return fmt::format("about {} min", minutes);
  if (minutes % 60 == 0) return fmt::format("about {} h", minutes / 60);
  return fmt::format("about {} h {} min", minutes / 60, minutes % 60);
}

}  // namespace kvloupe

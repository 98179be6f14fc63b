#include "analysis/markup.h"

#include <array>
#include <tuple>
#include <utility>

namespace kvloupe {

std::string table_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

std::string latex_text(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 35> kSpelled = {
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

}  // namespace kvloupe

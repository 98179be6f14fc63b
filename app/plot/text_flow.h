#pragma once
// A trace's text as flowing lines of tokens, for all figures of the text.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/trace.h"
#include "app/plot/frame.h"

namespace kvloupe::figure {

/// A trace's tokens as they are printed.
struct TokenText {
  std::vector<std::string> text;  // [T] as shown
  std::vector<bool> breaks;       // [T] the line ends after this token
  std::vector<bool> special;      // [T] not part of the text
};
TokenText token_text(const TokenTable& table, std::size_t count);

/// How one token is set.
struct TokenLook {
  Colour ground = {};  // the paper's colour: none
  bool struck = false;
  std::optional<Colour> underline = {};
  bool dashed = false;  // the underline
  bool faint = false;
  Pattern pattern = Pattern::none;  // of the ground
  Colour pattern_colour = {};
};

/// Sets tokens `first` to `last` (both included) from `top` downwards over the scene's whole width,
/// each with its pick region. If the height does not hold them all, a last line says how many more
/// there are.
void add_token_text(Scene& scene, const Style& style, const TokenText& tokens, int first, int last,
                    double top, const std::function<TokenLook(std::size_t)>& look);

/// The height that these tokens need at a width.
double token_text_height(const Style& style, const TokenText& tokens, int first, int last,
                         double width);

/// A colour `share` of the way from `a` to `b`.
Colour mix(Colour a, Colour b, double share);

}  // namespace kvloupe::figure

#pragma once

#include <string>
#include <string_view>

namespace kvloupe::figure {

/// Whether a token's text is a line break and nothing else.
bool is_newline(std::string_view text);

/// A token's text as figures and the window show it: invisible characters become signs (↵ →, ∅ for
/// an empty text), the space mark of SentencePiece a space, and a control character \xNN.
std::string printable(std::string_view text);

}  // namespace kvloupe::figure

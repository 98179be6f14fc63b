#pragma once

#include <string>
#include <string_view>

namespace kvloupe {

/// A text as LaTeX shows it: its special characters escaped, symbols of kvloupe's texts as maths.
/// Other characters outside of ASCII stay as they are, in UTF-8.
std::string latex_text(std::string_view text);

}  // namespace kvloupe

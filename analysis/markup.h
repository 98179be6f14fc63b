#pragma once

#include <string>
#include <string_view>

namespace kvloupe {

/// A text as the cell of a Markdown table, where a bare pipe would end the cell.
std::string table_cell(std::string text);

/// A text as LaTeX shows it: its special characters escaped, symbols of kvloupe's texts as maths.
/// Other characters outside of ASCII stay as they are, in UTF-8.
std::string latex_text(std::string_view text);

}  // namespace kvloupe

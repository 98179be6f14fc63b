#pragma once

#include <string>

namespace kvloupe {

/// A text as the cell of a Markdown table, where a bare pipe would end the cell.
std::string table_cell(std::string text);

}  // namespace kvloupe

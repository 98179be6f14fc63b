#pragma once

#include <string_view>

namespace kvloupe {

constexpr int kDeepestJson = 64;

/// Whether more than kDeepestJson arrays and objects of a JSON text stand in each other, which no
/// file of kvloupe's needs. For a text of a stranger, before it is parsed: the library walks values
/// by recursion where it copies, compares or writes them, so that enough brackets end the stack.
bool is_deep_json(std::string_view json);

}  // namespace kvloupe

#pragma once

#include <string_view>

namespace kvloupe {

constexpr int kDeepestJson = 64;

/// Whether arrays and objects of a JSON text are nested more than kDeepestJson deep, which no file
/// of kvloupe's needs. Check an untrusted text before parsing it: the library copies, compares and
/// writes values by recursion, so that enough brackets overflow the stack.
bool is_deep_json(std::string_view json);

}  // namespace kvloupe

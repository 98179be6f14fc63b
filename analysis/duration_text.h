#pragma once

#include <string>

namespace kvloupe {

/// How long still, as a person says it: "about 40 s", "about 3 min", "about 1 h 20 min". Rounded
/// up; a time below a second, unknown or negative is "about 1 s".
std::string duration_text(double seconds);

}  // namespace kvloupe

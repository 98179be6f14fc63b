#pragma once

#include <string>

namespace kvloupe {

/// The digits of the first number in a text; empty without one. What an answer is judged by.
std::string first_number(const std::string& text);

}  // namespace kvloupe

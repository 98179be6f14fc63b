#include "capture/eval/first_number.h"

#include <algorithm>

namespace kvloupe {

std::string first_number(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(text.begin(), text.end(), is_digit);
  return {first, std::find_if_not(first, text.end(), is_digit)};
}

}  // namespace kvloupe

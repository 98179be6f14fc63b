#include "analysis/file_word.h"

#include <cctype>

namespace kvloupe {

std::string file_word(std::string_view text, std::size_t most) {
  std::string word;
  for (const char c : text) {
    if (word.size() >= most) break;
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty() && word.back() != '-') {
      word += '-';
    }
  }
  while (!word.empty() && word.back() == '-') word.pop_back();
  return word;
}

}  // namespace kvloupe

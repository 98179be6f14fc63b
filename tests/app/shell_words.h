#pragma once

#include <string>
#include <vector>

namespace kvloupe::test {

/// Words of a line as a shell splits them, where quotes are single (request::command_line).
inline std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\'') {
      quoted = !quoted;
    } else if (line[i] == '\\' && !quoted) {
      words.back() += line[++i];
    } else if (line[i] == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += line[i];
    }
  }
  return words;
}

}  // namespace kvloupe::test

#include "analysis/base/system/read_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>

#include "analysis/base/core/error.h"

namespace kvloupe {

std::string read_file(const std::filesystem::path& path, std::uintmax_t largest) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw FileError(path.string(), "this file does not exist; check the path");
  }
  if (std::filesystem::is_directory(path, ignored)) {
    throw FileError(path.string(), "is a folder; a file is expected");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path.string(), "cannot be read; check its permissions");
  std::string bytes;
  std::string piece(1 << 16, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    bytes.append(piece, 0, static_cast<std::size_t>(file.gcount()));
    if (bytes.size() > largest) {
      throw FileError(path.string(), "is larger than the " + std::to_string(largest >> 20U) +
                                         " MiB that such a file may have");
    }
  }
  if (file.bad()) throw FileError(path.string(), "cannot be read");
  return bytes;
}

bool read_line(std::istream& in, std::string& line, std::size_t most) {
  line.clear();
  std::array<char, 1 << 16> piece;
  for (bool first = true;; first = false) {
    in.getline(piece.data(), piece.size());
    const auto got = static_cast<std::size_t>(in.gcount());
    if (in.bad()) return false;
    const bool at_end = in.eof();
    if (at_end && got == 0 && first) return false;
    const bool full = !at_end && in.fail();
    const std::size_t text = at_end || full ? got : got - 1;  // without the line's end
    line.append(piece.data(), std::min(text, most + 1 - std::min(line.size(), most + 1)));
    if (in.fail()) in.clear(in.rdstate() & ~std::ios::failbit);
    if (!full) return true;
  }
}

bool is_deep_json(std::string_view json) {
  // Counts brackets outside strings. In a text that is not JSON, the count covers at least the part
  // that a parser reads before it stops.
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace kvloupe

#include "analysis/read_file.h"

#include <fstream>
#include <iterator>

#include "analysis/error.h"

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

}  // namespace kvloupe

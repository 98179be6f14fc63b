#pragma once
// Short lists that the window remembers from one start to the next, one entry a line.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::window {

/// The lines of a file; none where it is missing or has more bytes than `most_bytes`.
std::vector<std::string> read_lines(const std::filesystem::path& file, std::uintmax_t most_bytes);

/// Writes the lines, and the folder if it is missing. A failure is not reported: the list is a
/// convenience. Nothing is written where `file` is empty.
void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines);

/// Whether a line can be a path as these lists hold it: absolute, of a sane length, without control
/// characters.
bool is_listed_path(const std::string& line);

}  // namespace kvloupe::window

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>

namespace kvloupe {

/// A file's bytes. Throws FileError: missing, a folder, unreadable, larger than `largest` bytes.
std::string read_file(const std::filesystem::path& path, std::uintmax_t largest);

/// The next line of a text, without its end, as std::getline reads it; of a longer line only the
/// first `most` + 1 bytes are kept, which tells the caller and takes no more memory. False at the
/// end of the text, and, with in.bad(), where reading fails.
bool read_line(std::istream& in, std::string& line, std::size_t most);

constexpr int kDeepestJson = 64;

/// Whether arrays and objects of a JSON text are nested more than kDeepestJson deep, which no file
/// of kvloupe's needs. Check an untrusted text before parsing it: the library copies, compares and
/// writes values by recursion, so that enough brackets overflow the stack.
bool is_deep_json(std::string_view json);

}  // namespace kvloupe

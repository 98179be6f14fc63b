#pragma once
// The header of a safetensors file: what tensors there are, and where. Without libtorch.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

constexpr std::uint64_t kSafetensorsLengthBytes = 8;  // before the header
/// In bytes; the reference implementation's limit.
constexpr std::uint64_t kLargestSafetensorsHeader = 100'000'000;

/// One tensor as the header describes it.
struct SafetensorsEntry {
  std::string dtype;                // as written: "F32", "F16", "BF16", ...
  std::vector<std::int64_t> shape;  // row-major; empty for a scalar
  std::uint64_t begin = 0;          // bytes, from the end of the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::uint64_t data_start = 0;  // bytes, from the start of the file
  std::map<std::string, SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;  // texts beside the tensors
};

/// Reads the header of a whole file, and checks it against the file's size: every tensor's bytes
/// lie inside the file, their number matches dtype and shape, and they neither overlap nor leave
/// gaps. Throws FileError, which names `path`.
SafetensorsHeader read_safetensors_header(const std::string& path, std::span<const std::byte> file);

/// The tensors that a shard's index lists: the name of each, and of its file. Throws FileError,
/// which names `path`: no index, a file outside the folder, a name given twice.
std::map<std::string, std::string> read_safetensors_index(const std::string& path,
                                                          std::string_view text);

/// Bytes per element; 0 for a dtype that is not known.
std::uint64_t safetensors_dtype_bytes(std::string_view dtype);

/// "[2,3]".
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace kvloupe

// A checkpoint in safetensors: its header, every tensor's bytes, and the index of a checkpoint in
// several files.

#include <cstdint>
#include <span>
#include <string>

#include "analysis/base/core/error.h"
#include "analysis/trace/safetensors_header.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(safetensors) {
  using namespace kvloupe;
  try {
    for (const auto& [name, file] : read_safetensors_index("index.json", input))
      fuzz::require(file.find('/') == std::string::npos, "a shard outside the folder");
  } catch (const FileError&) {
  }
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(input.data()),
                                        input.size());
  const SafetensorsHeader header = read_safetensors_header("model.safetensors", file);
  std::uint64_t total = 0;
  for (const auto& [name, entry] : header.entries) {
    fuzz::require(entry.begin <= entry.end && header.data_start + entry.end <= file.size(),
                  "a tensor outside the file");
    std::uint64_t count = 1;
    for (const std::int64_t size : entry.shape) {
      fuzz::require(size >= 0, "a negative size");
      count *= static_cast<std::uint64_t>(size);
    }
    const std::uint64_t element = safetensors_dtype_bytes(entry.dtype);
    fuzz::require(element == 0 || count * element == entry.end - entry.begin,
                  "a shape of other bytes");
    total += entry.end - entry.begin;
  }
  fuzz::require(header.data_start + total == file.size(), "tensors do not fill the file");
}

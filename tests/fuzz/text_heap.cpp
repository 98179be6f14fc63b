#include "tests/fuzz/text_heap.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::fuzz {

namespace {
/// A little-endian number of so many bytes.
std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

/// From the heap's signature on.
bool is_sound(std::string_view heap) {
  constexpr std::size_t kHeader = 16;  // of the heap, and of each object
  if (heap.size() < kHeader) return true;
  const std::uint64_t size = number(heap, 8, 8);
  if (size > heap.size()) return true;  // HDF5 sees that
  std::size_t at = kHeader;
  while (at + kHeader <= size) {
    const bool free_space = number(heap, at, 2) == 0;  // the last one; its header counts
    const std::uint64_t object = number(heap, at + 8, 8);
    const std::uint64_t left = size - at - (free_space ? 0 : kHeader);
    if (object > left) return false;
    if (free_space) return true;
    at += kHeader + (object + 7) / 8 * 8;
  }
  return true;
}
}  // namespace

bool text_heaps_are_sound(std::string_view file) {
  for (std::size_t at = file.find("GCOL"); at != std::string_view::npos;
       at = file.find("GCOL", at + 1)) {
    if (!is_sound(file.substr(at))) return false;
  }
  return true;
}

}  // namespace kvloupe::fuzz

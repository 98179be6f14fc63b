#pragma once

#include <cstddef>
#include <cstdint>

namespace kvloupe {

/// Numbers of one block of MXFP4: they share a power of two.
inline constexpr std::int64_t kMxfp4Block = 32;
inline constexpr std::int64_t kMxfp4BlockBytes = 16;

/// Expands blocks of MXFP4 as safetensors files of gpt-oss keep them: 16 bytes for each block, the
/// first number of a byte in its lower half, and for each block the exponent of its scale, plus
/// 127. The results [32 · blocks] are exact. (GGUF files keep the numbers in another order.)
void expand_mxfp4(const std::byte* blocks, const std::byte* scales, std::int64_t count,
                  float* numbers);

}  // namespace kvloupe

#pragma once
// The types in which a GGUF file stores numbers. A row of a tensor is cut into blocks; each block
// packs the same count of numbers into the same count of bytes. Without libtorch.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kvloupe {

/// Expands `count` blocks that lie one after the other into float32.
using GgufExpand = void (*)(const std::byte* blocks, std::int64_t count, float* into);

struct GgufType {
  std::uint32_t id;       // as in the file
  std::string_view name;  // "Q4_K"
  int block;              // numbers
  int bytes;              // of a block
  GgufExpand expand;      // null: kvloupe does not read this type
};

/// Every known type, one line each, those that kvloupe does not read included.
std::span<const GgufType> gguf_types();

/// Null for a number that names no type.
const GgufType* find_gguf_type(std::uint32_t id);

/// The name of a mixture of types by its number in general.file_type: "Q4_K_M"; else empty.
std::string_view gguf_file_type(std::int64_t number);

}  // namespace kvloupe

// Expands the packed numbers of a GGUF file, one function for each type: a GgufExpand. Each product
// and sum is rounded to float32 by itself, in the order of the formula, so that the result is the
// same on every machine. Layouts: https://github.com/ggml-org/ggml, "block_" structures.

namespace kvloupe::gguf_expand {

void f32(const std::byte* blocks, std::int64_t count, float* into);
void f16(const std::byte* blocks, std::int64_t count, float* into);
void bf16(const std::byte* blocks, std::int64_t count, float* into);
void q4_0(const std::byte* blocks, std::int64_t count, float* into);
void q4_1(const std::byte* blocks, std::int64_t count, float* into);
void q5_0(const std::byte* blocks, std::int64_t count, float* into);
void q5_1(const std::byte* blocks, std::int64_t count, float* into);
void q8_0(const std::byte* blocks, std::int64_t count, float* into);
void q2_k(const std::byte* blocks, std::int64_t count, float* into);
void q3_k(const std::byte* blocks, std::int64_t count, float* into);
void q4_k(const std::byte* blocks, std::int64_t count, float* into);
void q5_k(const std::byte* blocks, std::int64_t count, float* into);
void q6_k(const std::byte* blocks, std::int64_t count, float* into);
void iq4_nl(const std::byte* blocks, std::int64_t count, float* into);
void iq4_xs(const std::byte* blocks, std::int64_t count, float* into);
void mxfp4(const std::byte* blocks, std::int64_t count, float* into);

}  // namespace kvloupe::gguf_expand

#pragma once
// Expands the packed numbers of a GGUF file, one function for each type: a GgufExpand. Each product
// and sum is rounded to float32 by itself, in the order of the formula, so that the result is the
// same on every machine. Layouts: https://github.com/ggml-org/ggml, "block_" structures.

#include <cstddef>
#include <cstdint>

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

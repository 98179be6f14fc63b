#include "capture/gguf/gguf_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "analysis/trace/half.h"

namespace kvloupe {

std::span<const GgufType> gguf_types() {
  using namespace gguf_expand;
  static constexpr std::array kTypes{
      GgufType{0, "F32", 1, 4, f32},
      GgufType{1, "F16", 1, 2, f16},
      GgufType{2, "Q4_0", 32, 18, q4_0},
      GgufType{3, "Q4_1", 32, 20, q4_1},
      GgufType{6, "Q5_0", 32, 22, q5_0},
      GgufType{7, "Q5_1", 32, 24, q5_1},
      GgufType{8, "Q8_0", 32, 34, q8_0},
      GgufType{9, "Q8_1", 32, 40, nullptr},
      GgufType{10, "Q2_K", 256, 84, q2_k},
      GgufType{11, "Q3_K", 256, 110, q3_k},
      GgufType{12, "Q4_K", 256, 144, q4_k},
      GgufType{13, "Q5_K", 256, 176, q5_k},
      GgufType{14, "Q6_K", 256, 210, q6_k},
      GgufType{15, "Q8_K", 256, 292, nullptr},
      GgufType{16, "IQ2_XXS", 256, 66, nullptr},
      GgufType{17, "IQ2_XS", 256, 74, nullptr},
      GgufType{18, "IQ3_XXS", 256, 98, nullptr},
      GgufType{19, "IQ1_S", 256, 50, nullptr},
      GgufType{20, "IQ4_NL", 32, 18, iq4_nl},
      GgufType{21, "IQ3_S", 256, 110, nullptr},
      GgufType{22, "IQ2_S", 256, 82, nullptr},
      GgufType{23, "IQ4_XS", 256, 136, iq4_xs},
      GgufType{24, "I8", 1, 1, nullptr},
      GgufType{25, "I16", 1, 2, nullptr},
      GgufType{26, "I32", 1, 4, nullptr},
      GgufType{27, "I64", 1, 8, nullptr},
      GgufType{28, "F64", 1, 8, nullptr},
      GgufType{29, "IQ1_M", 256, 56, nullptr},
      GgufType{30, "BF16", 1, 2, bf16},
      GgufType{34, "TQ1_0", 256, 54, nullptr},
      GgufType{35, "TQ2_0", 256, 66, nullptr},
      GgufType{39, "MXFP4", 32, 17, mxfp4},
      GgufType{40, "NVFP4", 64, 36, nullptr},
      GgufType{41, "Q1_0", 128, 18, nullptr},
  };
  return kTypes;
}

std::string_view gguf_file_type(std::int64_t number) {
  static constexpr std::array<std::string_view, 41> kNames{
      "F32",   "F16",     "Q4_0",      "Q4_1",   "",       "",        "",       "Q8_0",   "Q5_0",
      "Q5_1",  "Q2_K",    "Q3_K_S",    "Q3_K_M", "Q3_K_L", "Q4_K_S",  "Q4_K_M", "Q5_K_S", "Q5_K_M",
      "Q6_K",  "IQ2_XXS", "IQ2_XS",    "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",
      "IQ3_M", "IQ2_S",   "IQ2_M",     "IQ4_XS", "IQ1_M",  "BF16",    "",       "",       "",
      "TQ1_0", "TQ2_0",   "MXFP4_MOE", "NVFP4",  "Q1_0"};
  return number >= 0 && number < std::ssize(kNames) ? kNames[static_cast<std::size_t>(number)] : "";
}

const GgufType* find_gguf_type(std::uint32_t id) {
  const auto types = gguf_types();
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const GgufType& type) { return type.id == id; });
  return found == types.end() ? nullptr : &*found;
}

}  // namespace kvloupe

namespace kvloupe::gguf_expand {

namespace {

constexpr int kSmall = 32;   // numbers of a block of the older types
constexpr int kSuper = 256;  // numbers of a block of the K types

const std::uint8_t* bytes_at(const std::byte* blocks, std::int64_t offset) {
  return reinterpret_cast<const std::uint8_t*>(blocks) + offset;
}

float half_at(const std::uint8_t* bytes) {
  std::uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return float_from_half(bits);
}

std::uint32_t word_at(const std::uint8_t* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Calls work(bytes of the block, its numbers) for each block.
template <int kNumbers, int kBytes, typename Work>
void each_block(const std::byte* blocks, std::int64_t count, float* into, Work work) {
  for (std::int64_t i = 0; i < count; ++i) {
    work(bytes_at(blocks, i * kBytes), into + i * kNumbers);
  }
}

/// Goes through the 32 numbers of 4 bits in 16 bytes: the low halves, then the high ones. x[j] =
/// value(number j, j).
template <typename Value>
void each_nibble(const std::uint8_t* bytes, float* x, Value value) {
  for (int j = 0; j < kSmall / 2; ++j) x[j] = value(bytes[j] & 15, j);
  for (int j = 0; j < kSmall / 2; ++j) x[j + 16] = value(bytes[j] >> 4, j + 16);
}

/// With a fifth bit, which is bit j of `high`.
int five_bits(int number, std::uint32_t high, int j) {
  return number | static_cast<int>((high >> j) & 1U) << 4;
}

/// Eight 6-bit scales and eight 6-bit offsets in 12 bytes (Q4_K and Q5_K).
struct ScalesAndOffsets {
  std::array<float, 8> scale, offset;

  ScalesAndOffsets(const std::uint8_t* packed, float d, float least) {
    for (std::size_t j = 0; j < 4; ++j) {
      const std::uint8_t a = packed[j], b = packed[j + 4], c = packed[j + 8];
      scale[j] = d * static_cast<float>(a & 63);
      offset[j] = least * static_cast<float>(b & 63);
      scale[j + 4] = d * static_cast<float>((c & 15) | (a >> 6) << 4);
      offset[j + 4] = least * static_cast<float>((c >> 4) | (b >> 6) << 4);
    }
  }
};

constexpr std::array<float, 16> kFourBitValues{-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
/// Twice the values of the 4-bit floating-point type E2M1.
constexpr std::array<float, 16> kTwiceE2m1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float value_of(const std::array<float, 16>& values, int number) {
  return values[static_cast<std::size_t>(number)];
}

/// Half of 2^(exponent - 127).
float half_power(std::uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent
                                           : (exponent - std::uint32_t{1}) << 23U);
}

}  // namespace

void f32(const std::byte* blocks, std::int64_t count, float* into) {
  std::memcpy(into, blocks, static_cast<std::size_t>(count) * sizeof(float));
}

void f16(const std::byte* blocks, std::int64_t count, float* into) {
  constexpr std::int64_t kAtOnce = 1024;  // copied first: a file may have them at odd addresses
  std::array<std::uint16_t, kAtOnce> halves;
  for (std::int64_t i = 0; i < count; i += kAtOnce) {
    const auto some = static_cast<std::size_t>(std::min(kAtOnce, count - i));
    std::memcpy(halves.data(), blocks + 2 * i, 2 * some);
    floats_from_halves({halves.data(), some}, {into + i, some});
  }
}

void bf16(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<1, 2>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    std::uint16_t bits;
    std::memcpy(&bits, block, sizeof bits);
    *x = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  });
}

void q4_0(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 18>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block);
    each_nibble(block + 2, x, [d](int q, int) { return d * static_cast<float>(q - 8); });
  });
}

void q4_1(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 20>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block), least = half_at(block + 2);
    each_nibble(block + 4, x, [=](int q, int) { return d * static_cast<float>(q) + least; });
  });
}

void q5_0(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 22>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block);
    const std::uint32_t high = word_at(block + 2);
    each_nibble(block + 6, x,
                [=](int q, int j) { return d * static_cast<float>(five_bits(q, high, j) - 16); });
  });
}

void q5_1(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 24>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block), least = half_at(block + 2);
    const std::uint32_t high = word_at(block + 4);
    each_nibble(block + 8, x, [=](int q, int j) {
      return d * static_cast<float>(five_bits(q, high, j)) + least;
    });
  });
}

void q8_0(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 34>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block);
    for (int j = 0; j < kSmall; ++j) {
      x[j] = static_cast<float>(static_cast<std::int8_t>(block[2 + j])) * d;
    }
  });
}

// 16 groups of 16 numbers of 2 bits; a byte holds one number of each of four groups. A group's
// scale and offset have 4 bits each.
void q2_k(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSuper, 84>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const std::uint8_t* const scales = block;
    const std::uint8_t* const packed = block + 16;
    const float d = half_at(block + 80), least = half_at(block + 82);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(scales[group] & 15);
      const float offset = least * static_cast<float>(scales[group] >> 4);
      const std::uint8_t* const from = packed + group / 8 * 32 + group % 2 * 16;
      const int shift = group / 2 % 4 * 2;
      for (int j = 0; j < 16; ++j) {
        x[group * 16 + j] = scale * static_cast<float>((from[j] >> shift) & 3) - offset;
      }
    }
  });
}

// As Q2_K, with a third bit in a mask (0 there takes 4 away), scales of 6 bits and without offsets.
void q3_k(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSuper, 110>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const std::uint8_t* const mask = block;
    const std::uint8_t* const packed = block + 32;
    const std::uint8_t* const scales = block + 96;
    const float d = half_at(block + 108);
    for (int group = 0; group < 16; ++group) {
      const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
      const int high = scales[8 + group % 4] >> group / 4 * 2 & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const std::uint8_t* const from = packed + group / 8 * 32 + group % 2 * 16;
      const std::uint8_t* const third = mask + group % 2 * 16;
      const int shift = group / 2 % 4 * 2, bit = group / 2;
      for (int j = 0; j < 16; ++j) {
        const int number = (from[j] >> shift & 3) - ((third[j] >> bit & 1) != 0 ? 0 : 4);
        x[group * 16 + j] = scale * static_cast<float>(number);
      }
    }
  });
}

// Eight groups of 32 numbers of 4 bits; a byte holds one number of each of two groups.
void q4_k(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSuper, 144>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const ScalesAndOffsets of(block + 4, half_at(block), half_at(block + 2));
    for (int group = 0; group < 8; ++group) {
      const std::uint8_t* const from = block + 16 + group / 2 * 32;
      const int shift = group % 2 * 4;
      const float scale = of.scale[static_cast<std::size_t>(group)];
      const float offset = of.offset[static_cast<std::size_t>(group)];
      for (int j = 0; j < 32; ++j) {
        x[group * 32 + j] = scale * static_cast<float>((from[j] >> shift) & 15) - offset;
      }
    }
  });
}

// As Q4_K, with a fifth bit: bit `group` of 32 bytes.
void q5_k(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSuper, 176>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const ScalesAndOffsets of(block + 4, half_at(block), half_at(block + 2));
    const std::uint8_t* const fifth = block + 16;
    for (int group = 0; group < 8; ++group) {
      const std::uint8_t* const from = block + 48 + group / 2 * 32;
      const int shift = group % 2 * 4;
      const float scale = of.scale[static_cast<std::size_t>(group)];
      const float offset = of.offset[static_cast<std::size_t>(group)];
      for (int j = 0; j < 32; ++j) {
        const int number = (from[j] >> shift & 15) | (fifth[j] >> group & 1) << 4;
        x[group * 32 + j] = scale * static_cast<float>(number) - offset;
      }
    }
  });
}

// 16 groups of 16 numbers of 6 bits, of which four lie in one place and two in another; scales of 8
// bits.
void q6_k(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSuper, 210>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const std::uint8_t* const low = block;
    const std::uint8_t* const high = block + 128;
    const std::uint8_t* const scales = block + 192;
    const float d = half_at(block + 208);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[group]));
      const int half = group / 8, stretch = group % 8 / 2;  // of 128 numbers, of 32 within it
      const int first = group % 2 * 16;
      const std::uint8_t* const four = low + half * 64 + stretch % 2 * 32 + first;
      const std::uint8_t* const two = high + half * 32 + first;
      const int four_shift = stretch / 2 * 4, two_shift = stretch * 2;
      for (int j = 0; j < 16; ++j) {
        const int number = ((four[j] >> four_shift & 15) | (two[j] >> two_shift & 3) << 4) - 32;
        x[group * 16 + j] = scale * static_cast<float>(number);
      }
    }
  });
}

void iq4_nl(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 18>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block);
    each_nibble(block + 2, x, [d](int q, int) { return d * value_of(kFourBitValues, q); });
  });
}

// Eight groups of 32 numbers as in IQ4_NL, with scales of 6 bits.
void iq4_xs(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSuper, 136>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_at(block);
    const unsigned high = static_cast<unsigned>(block[2]) | static_cast<unsigned>(block[3]) << 8U;
    for (int group = 0; group < 8; ++group) {
      const int low = block[4 + group / 2] >> group % 2 * 4 & 15;
      const int scale = (low | static_cast<int>(high >> (2 * group) & 3U) << 4) - 32;
      const float step = d * static_cast<float>(scale);
      each_nibble(block + 8 + group * 16, x + group * 32,
                  [step](int q, int) { return step * value_of(kFourBitValues, q); });
    }
  });
}

void mxfp4(const std::byte* blocks, std::int64_t count, float* into) {
  each_block<kSmall, 17>(blocks, count, into, [](const std::uint8_t* block, float* x) {
    const float d = half_power(block[0]);
    each_nibble(block + 1, x, [d](int q, int) { return d * value_of(kTwiceE2m1, q); });
  });
}

}  // namespace kvloupe::gguf_expand

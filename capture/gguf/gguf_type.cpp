#include "capture/gguf/gguf_type.h"

#include <algorithm>
#include <array>

#include "capture/gguf/gguf_expand.h"

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

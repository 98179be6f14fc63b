// The cost of expanding packed numbers of a GGUF file, one thread, beside a copy of as many float32
// numbers, which is the least possible cost.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "capture/gguf/gguf_type.h"

namespace kvloupe {
namespace {

constexpr std::int64_t kNumbers = std::int64_t{1} << 22;  // 16 MiB of float32: beyond the caches

void copy_of_floats(benchmark::State& state) {
  const std::vector<float> from(kNumbers, 1.0F);
  std::vector<float> into(kNumbers);
  for (auto _ : state) {
    std::memcpy(into.data(), from.data(), kNumbers * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kNumbers);
}

void expand(benchmark::State& state, const GgufType& type) {
  const std::int64_t blocks = kNumbers / type.block;
  std::vector<std::byte> packed(static_cast<std::size_t>(blocks * type.bytes));
  std::mt19937 random(1);
  for (std::byte& byte : packed) byte = static_cast<std::byte>(random() & 0x3FU);
  std::vector<float> into(kNumbers);
  for (auto _ : state) {
    type.expand(packed.data(), blocks, into.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kNumbers);
}

const bool registered = [] {
  benchmark::RegisterBenchmark("gguf/copy of float32", copy_of_floats);
  for (const GgufType& type : gguf_types()) {
    if (type.expand == nullptr) continue;
    benchmark::RegisterBenchmark(("gguf/" + std::string(type.name)).c_str(),
                                 [&type](benchmark::State& state) { expand(state, type); });
  }
  return true;
}();

}  // namespace
}  // namespace kvloupe

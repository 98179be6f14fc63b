#pragma once

#include <benchmark/benchmark.h>

#include <initializer_list>
#include <string>

namespace kvloupe {

/// Registers `run(state, spec)` for each policy, as NAME/POLICY: what stands before its arguments,
/// with _ for +.
template <class Run>
bool for_each_policy(const std::string& name, std::initializer_list<const char*> specs,
                     const Run& run) {
  for (const char* spec : specs) {
    std::string policy = std::string(spec).substr(0, std::string(spec).find('('));
    for (char& letter : policy) letter = letter == '+' ? '_' : letter;
    benchmark::RegisterBenchmark((name + "/" + policy).c_str(), [=](benchmark::State& state) {
      run(state, spec);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}

}  // namespace kvloupe

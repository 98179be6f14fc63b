#include "analysis/study/bootstrap.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "analysis/numeric/splitmix.h"

namespace kvloupe {

MeanInterval bootstrap_mean(std::span<const double> values, std::uint64_t seed) {
  if (values.empty()) throw std::invalid_argument("bootstrap_mean: no values");
  const std::size_t count = values.size();
  const auto mean = [count](double sum) { return sum / static_cast<double>(count); };
  std::vector<double> means;
  means.reserve(kResamples);
  std::uint64_t state = splitmix(seed);
  for (int i = 0; i < kResamples; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < count; ++j) {
      state += kSplitmixStep;
      // The upper half as a fraction of 2^32; a study has far fewer traces than that.
      sum += values[((splitmix_output(state) >> 32U) * count) >> 32U];
    }
    means.push_back(mean(sum));
  }
  std::sort(means.begin(), means.end());
  constexpr auto kTail = static_cast<std::size_t>(kResamples * 25 / 1000);
  return {mean(std::accumulate(values.begin(), values.end(), 0.0)), means[kTail],
          means[kResamples - 1 - kTail]};
}

}  // namespace kvloupe

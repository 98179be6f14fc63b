#include "analysis/policy/kit/standard_scores.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void standardise(std::vector<std::vector<double>>& heads) {
  double sum = 0.0;
  long count = 0;
  const auto each = [&](const auto& body) {
    for (std::vector<double>& head : heads) {
      for (double& value : head) {
        if (!std::isnan(value)) body(value);
      }
    }
  };
  each([&](double value) { sum += value, ++count; });
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
  each([&](double value) { squares += (value - mean) * (value - mean); });
  const double deviation = count < 2 ? 0.0 : std::sqrt(squares / static_cast<double>(count - 1));
  const double unit = std::max(deviation, 1e-6);
  each([&](double& value) { value = (value - mean) / unit; });
}

}  // namespace kvloupe

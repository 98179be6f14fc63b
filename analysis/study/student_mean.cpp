#include "analysis/study/student_mean.h"

#include <cmath>

#include "analysis/numeric/distributions.h"
#include "analysis/unknown.h"

namespace kvloupe {

double student_t95(int degrees) {
  // t² has the F distribution with 1 and `degrees` degrees of freedom.
  double low = 1.9, high = 13.0;  // infinitely many; 1
  constexpr int kHalvings = 50;   // to the last digits of a double
  for (int i = 0; i < kHalvings; ++i) {
    const double t = (low + high) / 2;
    (f_tail(t * t, 1.0, degrees) > 0.05 ? low : high) = t;
  }
  return (low + high) / 2;
}

StudentMean student_mean(std::span<const double> values) {
  StudentMean result;
  double sum = 0.0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++result.count;
  }
  result.mean = result.count > 0 ? sum / result.count : kUnknown;
  result.low = result.high = kUnknown;
  if (result.count < 2) return result;
  double squares = 0.0;
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - result.mean) * (value - result.mean);
  }
  // A table of many heads has few counts.
  thread_local int known_degrees = 0;
  thread_local double known_t = 0.0;
  if (known_degrees != result.count - 1) {
    known_degrees = result.count - 1;
    known_t = student_t95(known_degrees);
  }
  const double half = known_t * std::sqrt(squares / (result.count - 1.0) / result.count);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

}  // namespace kvloupe

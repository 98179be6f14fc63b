#pragma once

#include <span>

#include "analysis/study/bootstrap.h"

namespace kvloupe {

/// Mean of the known (finite) values with Student's 95 % interval: mean ∓ t(0.975, n − 1) · s / √n
/// (Student 1908). In place of bootstrap_mean() where hundreds of means are drawn at once. One
/// value: the interval is unknown (NaN); none: so is the mean.
struct StudentMean : MeanInterval {
  int count = 0;  // known values
};
StudentMean student_mean(std::span<const double> values);

/// The t beyond which, on both sides together, lie 5 % of Student's distribution with `degrees` ≥ 1
/// of freedom.
double student_t95(int degrees);

}  // namespace kvloupe

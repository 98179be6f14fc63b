#pragma once

#include <vector>

namespace kvloupe {

/// (x − mean)/standard deviation over all n; 0 if the standard deviation is 0.
std::vector<double> column_zscore(const std::vector<double>& values);
/// (x − smallest)/(largest − smallest); 0 if all are equal.
std::vector<double> column_minmax(const std::vector<double>& values);
/// Sum of the `width` (odd) values around each value, divided by `width`; values beyond the ends
/// count as 0, as in snapkv.
std::vector<double> column_smooth(const std::vector<double>& values, int width);

}  // namespace kvloupe

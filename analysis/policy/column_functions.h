#pragma once

#include <vector>

namespace kvloupe {

/// (x − mean)/standard deviation over all n; 0 where that is 0.
std::vector<double> column_zscore(const std::vector<double>& values);
/// (x − least)/(most − least); 0 where all are equal.
std::vector<double> column_minmax(const std::vector<double>& values);
/// Sum of the `width` (odd) values around each over `width`; nothing beyond the ends, as snapkv.
std::vector<double> column_smooth(const std::vector<double>& values, int width);

}  // namespace kvloupe

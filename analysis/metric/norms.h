#pragma once

#include <span>
#include <vector>

#include "analysis/matrix.h"

namespace kvloupe {

/// ‖row‖₂ of every row: [n]. Keys or values of a head.
std::vector<float> row_norms(const MatrixView& rows);

/// The middle value; the mean of the two middle ones where their count is even. NaN of nothing.
float median(std::span<const float> values);

}  // namespace kvloupe

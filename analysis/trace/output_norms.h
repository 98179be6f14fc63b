#pragma once

#include <vector>

#include "analysis/matrix.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// ‖v_i W_O‖ of every value: [T]. values [T,d]; output_weight [d,D], of one query head.
std::vector<float> output_norms(const Matrix& values, const Matrix& output_weight, Norm norm);

}  // namespace kvloupe

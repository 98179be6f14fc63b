#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// ‖row‖₂ of every row: [n]. Keys or values of a head.
std::vector<float> row_norms(const MatrixView& rows);

/// The middle value; the mean of the two middle ones where their count is even. NaN of nothing.
float median(std::span<const float> values);

/// Multiplies column j by factors[j]; no factors: nothing changes. With values and an output gate
/// g, the parts of a head's output: g ⊙ Σ A_i v_i = Σ A_i (g ⊙ v_i).
void multiply_columns(Matrix& matrix, std::span<const float> factors);

}  // namespace kvloupe

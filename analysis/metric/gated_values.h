#pragma once

#include <span>

#include "analysis/matrix.h"

namespace kvloupe {

/// Multiplies column j by factors[j]; no factors: nothing changes. With values and an output gate
/// g, the parts of a head's output: g ⊙ Σ A_i v_i = Σ A_i (g ⊙ v_i).
void multiply_columns(Matrix& matrix, std::span<const float> factors);

}  // namespace kvloupe

#pragma once

#include <filesystem>

namespace kvloupe::test {

/// Writes a results file as kvloupe-capture eval does: the full cache, h2o and snapkv+critical at
/// 10%, 25% and 50%. Needles: lengths 256 and 512, depths 10, 50 and 90, two samples; found where
/// (sum of all places, samples, budgets and policies) % 3 is not 0. Perplexity: two samples. Hidden
/// states of three layers: difference = 0.1·policy/(budget + 1) + 0.01·sample times 1, 2, 3, and 4
/// after the norm; their cosines difference/4, /3, /2 and /1. Returns the path.
std::filesystem::path write_synthetic_evaluation(const std::filesystem::path& path,
                                                 bool needles = true);

/// Writes a results file as kvloupe-capture rescue does, of a model with 3 layers of 2 heads and
/// policy h2o with 24 entries. Kept in head (l,h) alone the gain is 0.5·(2l + h), and the answer is
/// right from head 2.0 on; dropped there the change is −0.3·(2l + h), wrong in head 2.1. Predicted
/// is 0.1·(2l + h), and nothing in head 0.0. Smallest sets: 2.0; and 1.1 with 2.1.
std::filesystem::path write_synthetic_rescue(const std::filesystem::path& path);

}  // namespace kvloupe::test

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

}  // namespace kvloupe::test

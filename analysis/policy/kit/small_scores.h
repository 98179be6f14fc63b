#pragma once
// Scores that are products of probabilities may be too small for float32, in which all of them
// would be 0 and their order lost.

#include <vector>

namespace kvloupe {

/// The float32 that stands for a score with this natural logarithm: the score itself from 1e-30 on.
/// A smaller score s becomes 1e-30 (s / 1e-30)^(1/64): this keeps the order of scores down to
/// 1e-540, to 5 digits, and is still nothing beside a score that counts. 0 for −∞.
float score_of_logarithm(double logarithm);
/// The natural logarithm of the score that such a float32 stands for; −∞ for 0.
double logarithm_of_score(float score);
/// The same float32 of scores that are not negative: [n].
std::vector<float> with_small_scores(const std::vector<double>& scores);

}  // namespace kvloupe

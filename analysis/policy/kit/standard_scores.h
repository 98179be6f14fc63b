#pragma once

#include <vector>

namespace kvloupe {

/// Standard scores over all heads together: each finite value less the mean of all, divided by
/// their standard deviation (of the sample; at least 1e-6). Values that are not finite stay as they
/// are.
void standardise(std::vector<std::vector<double>>& heads);

}  // namespace kvloupe

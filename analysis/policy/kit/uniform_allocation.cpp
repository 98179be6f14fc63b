#include "analysis/policy/kit/uniform_allocation.h"

#include <algorithm>

namespace kvloupe {

bool UniformAllocation::over_budget(const StepView& view, int budget) const {
  return std::any_of(view.caches.begin(), view.caches.end(), [&](const CacheView& cache) {
    return cache.tokens.size() > static_cast<std::size_t>(budget);
  });
}

std::vector<int> UniformAllocation::quotas(const StepView& view,
                                           const std::vector<std::vector<float>>& /*scores*/,
                                           const Protection& /*protection*/, int budget) const {
  std::vector<int> result;
  for (const CacheView& cache : view.caches) {
    result.push_back(std::min(budget, static_cast<int>(cache.tokens.size())));
  }
  return result;
}

}  // namespace kvloupe

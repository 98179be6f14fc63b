#include "analysis/policy/uniform_allocation.h"

#include <algorithm>

namespace kvloupe {

bool UniformAllocation::over_budget(const StepView& view) const {
  return std::any_of(view.caches.begin(), view.caches.end(), [this](const CacheView& cache) {
    return cache.tokens.size() > static_cast<std::size_t>(budget_);
  });
}

std::vector<int> UniformAllocation::quotas(const StepView& view,
                                           const std::vector<std::vector<float>>& /*scores*/,
                                           const Protection& /*protection*/) const {
  std::vector<int> result;
  for (const CacheView& cache : view.caches) {
    result.push_back(std::min(budget_, static_cast<int>(cache.tokens.size())));
  }
  return result;
}

}  // namespace kvloupe

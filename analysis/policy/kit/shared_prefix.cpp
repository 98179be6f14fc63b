#include "analysis/policy/kit/shared_prefix.h"

namespace kvloupe {

namespace {
constexpr std::size_t kNode = 128;  // bytes that a map needs for one, about
}

bool SharedPrefix::reserve(std::size_t bytes) {
  if (bytes > room_) return false;
  room_ -= bytes;
  return true;
}

std::vector<float> SharedPrefix::column_sums(int layer, int query_head, const Block& block,
                                             const std::function<std::vector<float>()>& compute) {
  const std::tuple key{layer, query_head, block.first, block.end};
  {
    const std::lock_guard lock(mutex_);
    const auto found = sums_.find(key);
    if (found != sums_.end()) return found->second;
  }
  std::vector<float> sums = compute();
  const std::lock_guard lock(mutex_);
  if (!sums_.contains(key) && reserve(sums.size() * sizeof(float) + kNode))
    sums_.emplace(key, sums);
  return sums;
}

std::vector<float> SharedPrefix::norms(const Kind& kind, const Block& tokens) const {
  const std::lock_guard lock(mutex_);
  const auto found = norms_.find({kind, tokens.first, tokens.end});
  return found == norms_.end() ? std::vector<float>() : found->second;
}

void SharedPrefix::keep_norms(const Kind& kind, const Block& tokens, std::span<const float> norms) {
  const std::tuple key{kind, tokens.first, tokens.end};
  const std::lock_guard lock(mutex_);
  if (!norms_.contains(key) && reserve(norms.size_bytes() + kNode))
    norms_.emplace(key, std::vector<float>(norms.begin(), norms.end()));
}

}  // namespace kvloupe

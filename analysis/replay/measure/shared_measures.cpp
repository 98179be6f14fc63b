#include "analysis/replay/measure/shared_measures.h"

namespace kvloupe {

namespace {
std::size_t bytes(const std::vector<double>& values) { return values.size() * sizeof(double); }
std::size_t bytes(const std::shared_ptr<const FullAttention>& one) {
  return one->logits.size() * sizeof(float) + bytes(one->attention) + bytes(one->output);
}
}  // namespace

template <typename Map, typename Compute>
typename Map::mapped_type SharedMeasures::known(Map& map, const typename Map::key_type& key,
                                                const Compute& compute) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = map.find(key);
    if (found != map.end()) return found->second;
  }
  typename Map::mapped_type value = compute();
  constexpr std::size_t kNode = 128;  // of the map, about
  const std::size_t needed = bytes(value) + kNode;
  const std::lock_guard lock(mutex_);
  if (needed <= room_ && map.emplace(key, value).second) room_ -= needed;
  return value;
}

std::shared_ptr<const FullAttention> SharedMeasures::attention(
    const Place& place, const std::function<FullAttention()>& compute) {
  return known(attention_, place, [&] { return std::make_shared<const FullAttention>(compute()); });
}

std::vector<double> SharedMeasures::values(const Place& place, std::size_t family,
                                           const std::function<std::vector<double>()>& compute) {
  return known(values_, {place, family}, compute);
}

std::vector<double> SharedMeasures::of_trace(int layer, int head,
                                             const std::function<std::vector<double>()>& compute) {
  return known(of_trace_, {layer, head}, compute);
}

}  // namespace kvloupe

#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kvloupe {

/// Logits, attention and output of a step's last query with the full cache.
struct FullAttention {
  std::vector<float> logits;      // [seen]
  std::vector<double> attention;  // [seen]
  std::vector<double> output;     // [d] before W_O, times the gate; empty without values
};

/// Values that the measures of several replays of one trace share, whatever the policy, the budget
/// and the steps: values of the trace alone, and at a token those of the full cache. It must serve
/// replays of one trace with one choice of measures. Thread-safe. The first values are kept, up to
/// so many bytes; the rest is computed each time.
class SharedMeasures {
 public:
  explicit SharedMeasures(std::size_t most_bytes) : room_(most_bytes) {}

  /// A query head of a layer at the last token of a step.
  struct Place {
    int layer = 0, query_head = 0, token = 0;
    auto operator<=>(const Place&) const = default;
  };
  std::shared_ptr<const FullAttention> attention(const Place& place,
                                                 const std::function<FullAttention()>& compute);
  /// The values of a family that do not depend on the policy; `family`: any number of its own.
  std::vector<double> values(const Place& place, std::size_t family,
                             const std::function<std::vector<double>()>& compute);
  /// The values of a head that are of the trace alone.
  std::vector<double> of_trace(int layer, int head,
                               const std::function<std::vector<double>()>& compute);

 private:
  template <typename Map, typename Compute>
  typename Map::mapped_type known(Map& map, const typename Map::key_type& key,
                                  const Compute& compute);

  std::mutex mutex_;
  std::size_t room_;
  std::map<Place, std::shared_ptr<const FullAttention>> attention_;
  std::map<std::pair<Place, std::size_t>, std::vector<double>> values_;
  std::map<std::pair<int, int>, std::vector<double>> of_trace_;
};

}  // namespace kvloupe

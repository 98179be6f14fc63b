#include "app/figure/head_sink.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/math/sink.h"

namespace kvloupe::figure {

namespace {
struct Known {
  std::string trace;
  int layer = 0;
  int head = 0;
  HeadSink sink;
};
constexpr int kLong = 4096;               // tokens
constexpr int kEstimateFrom = 512;        // queries
constexpr std::size_t kMostKnown = 4096;  // heads
std::mutex mutex;
std::deque<Known> known;  // the oldest first
}  // namespace

HeadSink head_sink(const Trace& trace, int layer, int head, Progress& progress) {
  const std::string key = trace.path().string() + '\n' + trace.identity();
  {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(known.begin(), known.end(), [&](const Known& one) {
      return one.layer == layer && one.head == head && one.trace == key;
    });
    if (found != known.end()) return found->sink;
  }
  const int group = trace.layer_model(layer).group_size();
  HeadSink sink;
  std::vector<int> some;
  if (trace.length() > kLong && trace.attention_logsumexp(layer, head * group).empty()) {
    sink.estimated = true;
    for (int i = 1; i <= kEstimateFrom; ++i)
      some.push_back(static_cast<int>(static_cast<long>(trace.length() - 1) * i / kEstimateFrom));
  }
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    const float one = sink.estimated ? sink_strength(trace, layer, query_head, 0, some, progress)
                                     : sink_strength(trace, layer, query_head, 0, progress);
    sink.strength += static_cast<double>(one) / group;
  }
  const std::lock_guard lock(mutex);
  if (known.size() >= kMostKnown) known.pop_front();
  known.push_back({key, layer, head, sink});
  return sink;
}

}  // namespace kvloupe::figure

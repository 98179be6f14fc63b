#include "tests/capture/follow_trace.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kvloupe::test {

NaiveCut follow(const Trace& trace, const MergeKind& kind) {
  return [&trace, kind](int layer, int step, NaiveCaches& caches) {
    if (step >= static_cast<int>(trace.blocks().size())) return;
    for (std::size_t head = 0; head < caches.size(); ++head) {
      const std::vector<NaiveEntry> before = caches[head];
      const auto find = [](auto& entries, int token) {
        return std::find_if(entries.begin(), entries.end(),
                            [&](const NaiveEntry& entry) { return entry.token == token; });
      };
      std::map<int, std::vector<MergedEntry>> sets;
      for (const MergedEntry& entry : trace.merges(layer)) {
        if (entry.step == step && entry.head == static_cast<int>(head)) {
          sets[entry.into].push_back(entry);
        }
      }
      for (const auto& [into, members] : sets) {
        NaiveEntry& merged = *find(caches[head], into);
        const double size = kind.scaled ? static_cast<double>(members.size()) : 1.0;
        std::fill(merged.value.begin(), merged.value.end(), 0.0);
        if (kind.keys_too) std::fill(merged.key.begin(), merged.key.end(), 0.0);
        double sizes = 0;
        for (const MergedEntry& member : members) {
          const NaiveEntry& source = *find(before, member.from);
          sizes += std::exp(source.log_size);
          for (std::size_t c = 0; c < merged.value.size(); ++c) {
            merged.value[c] += size * double{member.weight} * source.value[c];
            if (kind.keys_too) merged.key[c] += double{member.weight} * source.key[c];
          }
        }
        if (kind.with_log_size) merged.log_size = std::log(sizes);
      }
      const std::vector<std::int32_t> evicted = *trace.evicted_at(layer, static_cast<int>(head));
      std::erase_if(caches[head], [&](const NaiveEntry& entry) {
        return evicted[static_cast<std::size_t>(entry.token)] == step;
      });
    }
  };
}

}  // namespace kvloupe::test

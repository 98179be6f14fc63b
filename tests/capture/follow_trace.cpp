#include "tests/capture/follow_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "analysis/policy/kit/spec.h"
#include "tests/support/cells.h"

namespace kvloupe::test {

namespace {
/// quant as its formula says, of one head's keys or values.
class FewBits {
 public:
  FewBits(const SpecPart& part, bool of_keys, const Matrix& stored)
      : bits_(part.count("bits")),
        group_(part.count("group")),
        residual_(part.count("residual")),
        along_entries_(part.word(of_keys ? "keys" : "values") == "channel"),
        of_keys_(of_keys),
        stored_(stored) {}

  /// Rounds what is due in a cache, ascending by token.
  void round(std::vector<NaiveEntry>& cache) {
    std::vector<NaiveEntry*> due;
    for (int i = 0; i < static_cast<int>(cache.size()) - residual_; ++i) {
      if (done_.count(cache[i].token) == 0) due.push_back(&cache[i]);
    }
    while (along_entries_ && static_cast<int>(due.size()) % group_ != 0) due.pop_back();
    const int width = static_cast<int>(stored_.cols());
    for (NaiveEntry* entry : due) {
      done_.insert(entry->token);
      Row& row = of_keys_ ? entry->key : entry->value;
      for (int c = 0; c < width; ++c) row[c] = static_cast<double>(stored_(entry->token, c));
    }
    const auto number = [&](int entry, int c) -> double& {
      return of_keys_ ? due[entry]->key[c] : due[entry]->value[c];
    };
    for (const auto& [entry, c] : cells(static_cast<int>(due.size()), width)) {
      std::vector<double*> members;
      if (along_entries_ && entry % group_ == 0) {
        for (int i = 0; i < group_; ++i) members.push_back(&number(entry + i, c));
      } else if (!along_entries_ && c % group_ == 0) {
        for (int i = c; i < std::min(c + group_, width); ++i) {
          members.push_back(&number(entry, i));
        }
      }
      round_group(members);
    }
  }

 private:
  void round_group(const std::vector<double*>& members) const {
    if (members.empty()) return;
    const auto less = [](const double* a, const double* b) { return *a < *b; };
    const double lowest = **std::min_element(members.begin(), members.end(), less);
    const double highest = **std::max_element(members.begin(), members.end(), less);
    if (lowest == highest) return;
    const double step = (highest - lowest) / (std::pow(2.0, bits_) - 1.0);
    for (double* x : members) *x = lowest + step * std::round((*x - lowest) / step);
  }

  int bits_, group_, residual_;
  bool along_entries_, of_keys_;
  Matrix stored_;  // [T,d]
  std::set<int> done_;
};
}  // namespace

NaiveCut follow(const Trace& trace, const MergeKind& kind) {
  const PolicySpec policy = parse_policy(trace.run().policy);
  const auto few_bits =
      std::make_shared<std::map<std::pair<int, std::size_t>, std::vector<FewBits>>>();
  return [&trace, kind, policy, few_bits](int layer, int step, NaiveCaches& caches) {
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
      std::erase_if(caches[head],
                    [&](const NaiveEntry& entry) { return evicted[entry.token] == step; });
      const SpecPart* quant = policy.find("quant");
      if (quant == nullptr) continue;
      std::vector<FewBits>& sides = (*few_bits)[{layer, head}];
      if (step == 0) {
        const int own = static_cast<int>(head);
        sides = {{*quant, true, trace.key(layer, own)}, {*quant, false, trace.value(layer, own)}};
      }
      for (FewBits& side : sides) side.round(caches[head]);
    }
  };
}

}  // namespace kvloupe::test

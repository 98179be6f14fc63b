// adakv: one layer's entries go to the highest scores over all its heads together.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
class AdaKvAllocation : public Allocation {
 public:
  explicit AdaKvAllocation(const SpecPart& part)
      : safeguard_(part.number("safeguard")), mix_(part.word("mode") == "mix") {}

  /// Quotas depend on the protected entries: of each head at most the mean, so that all have room.
  int protectable(int quota, int budget) const override { return std::min(quota, budget); }

  bool over_budget(const StepView& view, int budget) const override {
    std::size_t entries = 0;
    for (const CacheView& cache : view.caches) entries += cache.tokens.size();
    return entries > static_cast<std::size_t>(budget) * view.caches.size();
  }

  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>& scores,
                          const Protection& protection, int budget) const override {
    const std::size_t heads = view.caches.size();
    // ⌊aN⌋ of the decimal a person wrote: 0.29 of 100 is 29.
    const int safe = static_cast<int>(Percent{safeguard_}.of(100L * budget));
    std::vector<int> quotas(heads), least(heads);
    std::vector<Entry> others;
    int left = budget * static_cast<int>(heads);
    for (std::size_t head = 0; head < heads; ++head) {
      const auto& tokens = view.caches[head].tokens;
      const std::vector<Fate> fates = protection.fates(static_cast<int>(head), tokens, budget);
      std::vector<Entry> own;
      for (std::size_t row = 0; row < tokens.size(); ++row) {
        if (fates[row] == Fate::evicted) own.push_back({scores[head][row], tokens[row], head});
      }
      const int is_protected = static_cast<int>(tokens.size() - own.size());
      // A head keeps one entry at least: attention over nothing has no meaning.
      least[head] = std::max(is_protected, 1);
      const int pinned = mix_ ? 0 : std::max(least[head], safe) - is_protected;
      const std::size_t taken = std::min(own.size(), static_cast<std::size_t>(pinned));
      const auto rest = own.begin() + static_cast<std::ptrdiff_t>(taken);
      std::nth_element(own.begin(), rest, own.end(), before);
      quotas[head] = is_protected + static_cast<int>(taken);
      left -= quotas[head];
      others.insert(others.end(), rest, own.end());
    }
    const std::size_t top = std::min(others.size(), static_cast<std::size_t>(std::max(left, 0)));
    std::nth_element(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(top),
                     others.end(), before);
    for (std::size_t i = 0; i < top; ++i) ++quotas[others[i].head];
    if (mix_) {
      for (std::size_t head = 0; head < heads; ++head) {
        const double share = (1.0 - safeguard_) * quotas[head] + safe;
        quotas[head] = std::clamp(static_cast<int>(std::nearbyint(share)), least[head],
                                  static_cast<int>(view.caches[head].tokens.size()));
      }
    }
    return quotas;
  }

 private:
  struct Entry {
    float score;
    std::int32_t token;
    std::size_t head;
  };
  /// Highest first; of equals the later token, then the lower head.
  static bool before(const Entry& a, const Entry& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.token != b.token) return a.token > b.token;
    return a.head < b.head;
  }

  double safeguard_;
  bool mix_;
};
}  // namespace

void adakv(PolicyEntry& entry) {
  entry.summary = "the heads of a layer share its entries: the highest scores of all heads stay";
  entry.formula =
      "pin: the best floor(safeguard N) of each head are kept, the rest of N Hk goes to the "
      "highest scores of the layer; mix: B_h = round((1 - a) c_h + floor(a N)), c_h = the head's "
      "count among the layer's top N Hk, a = safeguard";
  entry.source = "Feng et al., Ada-KV; pin: kvpress; mix: the authors' code";
  entry.needs = "the scores of all heads of a layer";
  entry.work = "n Hk comparisons on average";
  entry.differences =
      "kvpress pins (mode=pin, 0.2); the authors' code mixes (mode=mix), now with 0.5, and adds "
      "the window to the budget. Here protected entries are in the budget, as pinned ones; a layer "
      "evicts when it holds more than N Hk entries; each head keeps at least one";
  entry.parameters = {
      number_parameter("safeguard", 0.2, 0.0, 1.0,
                       "share of the budget that every head gets in any case; 1: uniform"),
      word_parameter(
          "mode", "pin", {"pin", "mix"},
          "pin: the best of each head first; mix: between the head's count in the layer's "
          "top and the uniform share")};
  entry.variants = {{"kvpress: the best of each head pinned", "adakv"},
                    {"its authors' code: mixed, a = 0.5", "adakv(safeguard=0.5,mode=mix)"}};
  entry.builder = AllocationBuilder{made_of<AdaKvAllocation>};
  entry.refusal = one_set_refusal;
  entry.doubts = [](const SpecPart& part, const PolicySpec& spec) {
    Lines doubts;
    const ScoreScale scale = score_scale(spec);
    if (scale == ScoreScale::per_head || scale == ScoreScale::signed_own) {
      doubts.push_back("adakv compares the scores of different heads, but those of " +
                       spec.score().name + " are on a different scale in each head");
    }
    if (part.word("mode") == "mix") {
      doubts.emplace_back(
          "adakv(mode=mix) rounds the share of each head separately: a layer's sum can differ from "
          "its budget, by the allocation_drift that is given for each step");
    }
    return doubts;
  };
}

}  // namespace kvloupe::policies

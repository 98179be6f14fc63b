// full: the cache without eviction.

#include <numeric>

#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class Full : public LayerPolicy {
 public:
  std::vector<HeadDecision> step(const StepView& view) override {
    std::vector<HeadDecision> decisions(view.caches.size());
    for (std::size_t head = 0; head < decisions.size(); ++head) {
      decisions[head].kept.resize(view.caches[head].tokens.size());
      std::iota(decisions[head].kept.begin(), decisions[head].kept.end(), 0);
    }
    return decisions;
  }
};
}  // namespace

void full(PolicyEntry& entry) {
  entry.summary = "the whole cache, whatever the budget";
  entry.formula = "every entry is kept";
  entry.source = "the reference every policy is measured against";
  entry.needs = "nothing";
  entry.work = "nothing";
  entry.builder = WholePolicyBuilder{made_of<Full>};
  entry.traits.keeps_everything = true;
  entry.traits.reads_queries = false;
  entry.notes = always("full keeps every entry; the budget has no effect");
}

}  // namespace kvloupe::policies

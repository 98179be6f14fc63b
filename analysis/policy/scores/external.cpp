// external: the sets another program kept.

#include <algorithm>
#include <numeric>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/kept_sets.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class External : public LayerPolicy {
 public:
  External(const SpecPart& part, const LayerContext& context)
      : sets_(read_kept_sets(part.word("file"), context.layer)), layer_(context.layer) {}

  std::vector<HeadDecision> step(const StepView& view) override {
    std::vector<HeadDecision> decisions(view.caches.size());
    for (std::size_t head = 0; head < decisions.size(); ++head) {
      HeadDecision& decision = decisions[head];
      const auto& tokens = view.caches[head].tokens;
      if (sets_.once() && view.step != *sets_.once()) {
        decision.kept.resize(tokens.size());
        std::iota(decision.kept.begin(), decision.kept.end(), 0);
        continue;
      }
      const std::vector<std::int32_t>& set = sets_.at(static_cast<int>(head), view.step);
      const auto where = [&] {
        return "layer " + std::to_string(layer_) + ", head " + std::to_string(head);
      };
      if (set.empty() && !tokens.empty()) {
        throw FileError(sets_.path(), "nothing is retained at " + where() + ", step " +
                                          std::to_string(view.step) +
                                          "; a cache must keep at least one entry");
      }
      for (const std::int32_t token : set) {
        const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
        if (found == tokens.end() || *found != token) {
          throw FileError(
              sets_.path(),
              "token " + std::to_string(token) + " of " + where() + " is kept at step " +
                  std::to_string(view.step) + " but is not in the cache there; " +
                  (token < view.first_token ? "the token has left the model's sliding window"
                                            : "use the block size that the file was made with"));
        }
        decision.kept.push_back(static_cast<std::int32_t>(found - tokens.begin()));
      }
      if (decision.kept.size() < tokens.size()) {
        decision.fates.assign(tokens.size(), Fate::evicted);
        for (const std::int32_t row : decision.kept) {
          decision.fates[static_cast<std::size_t>(row)] = Fate::by_score;
        }
      }
    }
    return decisions;
  }

 private:
  KeptSets sets_;
  int layer_;
};
}  // namespace

void external(PolicyEntry& entry) {
  entry.summary = "the sets in a file that `export-sets`, `replay --json` or another program wrote";
  entry.traits.reads_queries = false;
  entry.formula =
      "kept = heads[layer, head].steps[step].retained of the file; of a file with the sets of one "
      "step only (once): everything before it, and afterwards these and all that comes";
  entry.source = "shows the decisions of another program";
  entry.needs = "the file";
  entry.work = "n comparisons";
  entry.parameters = {
      file_parameter("file", "the file, JSON or safetensors (docs/sets.md), in quotes", true)};
  entry.builder = WholePolicyBuilder{made_of<External>};
  entry.notes = [](const SpecPart& part, const ModelInfo&, int) {
    return "external keeps the sets of " + part.word("file") + "; the budget has no effect";
  };
}

}  // namespace kvloupe::policies

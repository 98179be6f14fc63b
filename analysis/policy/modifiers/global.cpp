// global: the highest scores of all layers stay, wherever they are.

#include <algorithm>
#include <vector>

#include "analysis/policy/kit/known_scores.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
class GlobalAllocation : public Allocation, public NeedsKnownScores {
 public:
  GlobalAllocation(const SpecPart& part, const LayerContext& context)
      : layer_(context.layer), by_layer_(part.word("by") == "layer") {}

  void by(KnowsScores& score) override { score_ = &score; }

  bool over_budget(const StepView& view, int budget) const override {
    if (view.block.end <= budget) return false;  // in no layer
    const std::vector<int> places = this->places(view, budget);
    for (std::size_t head = 0; head < places.size(); ++head) {
      if (static_cast<int>(view.caches[head].tokens.size()) > places[head]) return true;
    }
    return false;
  }

  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>&,
                          const Protection& protection, int budget) const override {
    std::vector<int> quotas = places(view, budget);
    for (std::size_t head = 0; head < quotas.size(); ++head) {
      const auto& tokens = view.caches[head].tokens;
      const std::vector<Fate> fates = protection.fates(static_cast<int>(head), tokens, budget);
      const auto is_protected =
          static_cast<int>(fates.size()) -
          static_cast<int>(std::count(fates.begin(), fates.end(), Fate::evicted)) -
          protection.count_extra(static_cast<int>(head), tokens);
      quotas[head] = std::clamp(std::max(quotas[head], is_protected), 1,
                                std::max(static_cast<int>(tokens.size()), 1));
    }
    return quotas;
  }

 private:
  /// [Hk]: each head's number of places among those of all layers, at least 1.
  std::vector<int> places(const StepView& view, int budget) const {
    const auto scores = score_->known();
    const int end = view.block.end;
    std::vector<int> own = by_layer_ ? scores->places_of_layers(end, budget).at(layer_index())
                                     : scores->places_of_heads(end, budget).at(layer_index());
    for (int& count : own) count = std::max(count, 1);
    return own;
  }
  std::size_t layer_index() const { return static_cast<std::size_t>(layer_); }

  int layer_;
  bool by_layer_;
  KnowsScores* score_ = nullptr;
};

std::string refusal(const SpecPart& part, const PolicySpec& spec) {
  const std::string one_set = one_set_refusal(part, spec);
  if (!one_set.empty()) return one_set;
  if (!find_policy(spec.score().name)->traits.reads_probe) {
    return spec.score().name +
           " scores one layer after the other; global needs a score that is known for all layers "
           "before the first step: kvzip or kvcompose";
  }
  for (const SpecPart& other : spec.parts) {
    const PolicyEntry& entry = *find_policy(other.name);
    if (entry.kind() == PartKind::value_aware) {
      return other.name + " replaces the score, which is then not known for all layers beforehand";
    }
    if (entry.as<LayerBudgetBuilder>() != nullptr) {
      return other.name + " sets the layers' budgets, and global does the same";
    }
  }
  return "";
}
}  // namespace

void global(PolicyEntry& entry) {
  entry.summary =
      "all heads of all layers share the places: the highest scores stay; N is the mean";
  entry.traits.reads_sequence = true;
  entry.traits.reads_probe = true;
  entry.traits.shares_layers = true;
  entry.traits.fixes_places = true;
  entry.formula =
      "head: as many entries as the head has among the N L Hk highest scores of all heads of all "
      "layers; of equals the later token, then the lower layer and head. layer: composite tokens, "
      "the mean over a layer's heads of their scores, each sorted; in layer 0 the largest of any "
      "layer; the N L highest give each layer's number of entries, the same for all of its heads. "
      "Both count over all tokens seen that later queries see, also those that have left the cache";
  entry.source = "head: KVzip (arXiv 2505.23416); layer: KVCompose (arXiv 2509.05165)";
  entry.needs = "a score that is known for all layers before the first step";
  entry.work = "once per step of all layers: L Hk n comparisons on average; layer: L Hk n log n";
  entry.differences =
      "each head keeps at least one entry, and up to N protected ones; so all heads together may "
      "hold a few more than N L Hk";
  entry.parameters = {word_parameter("by", "head", {"head", "layer"},
                                     "places are counted for each head, or for each layer, whose "
                                     "heads then hold equally many")};
  entry.example = "kvzip+global";
  entry.variants = {{"KVzip; KVCompose, unstructured", "global"},
                    {"KVCompose: composite tokens", "global(by=layer)"}};
  entry.builder = AllocationBuilder{made_of<GlobalAllocation>};
  entry.refusal = refusal;
}

}  // namespace kvloupe::policies

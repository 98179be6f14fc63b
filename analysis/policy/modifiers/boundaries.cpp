// boundaries: structural tokens are kept.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void boundaries(PolicyEntry& entry) {
  entry.summary = "keeps structural tokens: special tokens, segment borders, line ends, delimiters";
  entry.traits.reads_structure = true;
  entry.formula =
      "token 0, then the latest structural tokens in the cache, r entries in all, are kept "
      "whatever their score";
  entry.source = "Protection Is (Nearly) All You Need (Garcia, 2026): about 10 % of the budget";
  entry.needs = "the tokens' texts";
  entry.work = "none";
  entry.differences =
      "open: the paper's list of boundary tokens, and which of too many stay; here the latest";
  entry.parameters = {
      share_parameter("r", Percent{10.0}, 0, 1e6, "a count of entries, or a share of the budget")};
  entry.example = "random+boundaries";
  entry.builder = ProtectionBuilder{[](const SpecPart& part, const LayerContext& context) {
    return Protection{.structural = context.structural,
                      .structural_places = part.share("r", context.budget)};
  }};
}

}  // namespace kvloupe::policies

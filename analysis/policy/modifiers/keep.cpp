// keep: tokens that a person names are kept.

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/token_parameters.h"
#include "analysis/policy/kit/token_rule.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void keep(PolicyEntry& entry) {
  entry.summary = "keeps the tokens you name, in the heads you name";
  entry.formula = "the named entries are kept whatever their score, before all other protection";
  entry.source = "an intervention: shows how the result changes with these entries";
  entry.needs = "token indices";
  entry.work = "none";
  entry.parameters = {
      tokens_parameter(), heads_parameter(),
      flag_parameter("extra", 0.0, "0: the entries are inside the budget; 1: beside it")};
  entry.builder = ProtectionBuilder{[](const SpecPart& part, const LayerContext& context) {
    const TokenRule rule(part.word("tokens"), part.word("heads"), context);
    Protection protection;
    (part.count("extra") != 0 ? protection.extra : protection.kept) = {rule};
    return protection;
  }};
  entry.refusal = [](const SpecPart& part, const PolicySpec& spec) -> std::string {
    if (part.count("extra") == 0 || !has_part(spec, PartKind::allocation)) return "";
    for (const SpecPart& other : spec.parts) {
      if (find_policy(other.name)->as<AllocationBuilder>() == nullptr) continue;
      return "with extra=1 the entries are beside the budget, but " + other.name +
             " shares one budget out to all heads; use extra=0";
    }
    return "";
  };
  entry.limits = [](const SpecPart& part, const ModelInfo& model, int budget, int tokens) {
    std::vector<TokenRange> ranges;
    read_tokens(part.word("tokens"), ranges);
    const long count = count_tokens(ranges, tokens, "keep");
    if (part.count("extra") == 0 && count > budget) {
      throw UsageError("keep: " + std::to_string(count) + " tokens do not fit the budget of " +
                       std::to_string(budget) +
                       " entries; raise the budget, or keep them beside it with extra=1");
    }
    check_heads(part.word("heads"), model);
  };
}

}  // namespace kvloupe::policies

// protect_prompt: the prompt's entries are kept.

#include <string>

#include "analysis/policy/kit/token_rule.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void protect_prompt(PolicyEntry& entry) {
  entry.summary = "keeps the prompt's entries; only generated tokens are evicted";
  entry.traits.reads_prompt_end = true;
  entry.traits.spares_prompt = true;
  entry.formula = "the entries of the prompt's tokens are kept whatever their score";
  entry.source = "RaaS; EpiKV; Random Attention (Wang et al., 2026, arXiv 2609.03430)";
  entry.needs = "where the prompt ends";
  entry.work = "none";
  entry.parameters = {
      flag_parameter("extra", 0.0, "0: the prompt is inside the budget; 1: beside it")};
  entry.example = "random+protect_prompt(1)";
  entry.builder = ProtectionBuilder{[](const SpecPart& part, const LayerContext& context) {
    Protection protection;
    if (context.prompt_length < 1) return protection;
    const TokenRule rule("0-" + std::to_string(context.prompt_length - 1), "", context);
    (part.count("extra") != 0 ? protection.extra : protection.kept) = {rule};
    return protection;
  }};
  entry.refusal = [](const SpecPart& part, const PolicySpec& spec) -> std::string {
    if (part.count("extra") == 0) return "";
    for (const SpecPart& other : spec.parts) {
      if (find_policy(other.name)->as<AllocationBuilder>() == nullptr) continue;
      return "with extra=1 the prompt is beside the budget, but " + other.name +
             " shares one budget out to all heads; use extra=0";
    }
    return "";
  };
  entry.run_refusal = [](const SpecPart& part, const RunShape& run) -> std::string {
    if (part.count("extra") != 0 || run.prompt_length < run.budget) return "";
    return "the prompt of " + std::to_string(run.prompt_length) +
           " tokens leaves no place in the budget of " + std::to_string(run.budget) +
           " entries; raise the budget, or keep the prompt beside it with extra=1";
  };
}

}  // namespace kvloupe::policies

#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe::test {

/// Whether a person must say more than the part's name: a file, a threshold.
inline bool asks_for_more(const PolicyEntry& entry) {
  return std::any_of(entry.parameters.begin(), entry.parameters.end(),
                     [](const ParameterInfo& parameter) { return parameter.required; });
}

/// Whether the part can be tried by its name (or example) alone, in one layer without the others,
/// acts at every step, holds the budget and exact entries: what the tests over the whole catalogue
/// take for granted. The other parts have tests of their own:
/// tests/analysis/sequence_policies_test.cpp, pass_policies_test.cpp, schedule_test.cpp,
/// quant_test.cpp, external in replay_test.cpp.
inline bool stands_alone(const PolicyEntry& entry) {
  return (entry.name == "expr" || !asks_for_more(entry)) && !entry.traits.reads_sequence &&
         !entry.traits.budget_is_outcome && entry.kind() != PartKind::schedule &&
         entry.kind() != PartKind::storage && !entry.traits.reads_prompt_end &&
         !entry.traits.reads_structure && !entry.traits.reads_pass;
}

/// Whether the score takes this modifier: one that makes entries refuses what merges them.
inline bool goes_with(const PolicyEntry& score, const PolicyEntry& modifier) {
  return score.name != "attentionmatching" || modifier.as<MergingBuilder>() == nullptr;
}

/// As a part stands in a spec here: sizes that bite at 26 tokens, and leave a head three entries at
/// least (of two keys neither is farther from their mean direction but for rounding). Others are at
/// their defaults.
inline std::string part_text(const PolicyEntry& entry) {
  static const std::map<std::string, std::string> small = {
      {"sink", "sink(2)"},
      {"snapkv", "snapkv(3,kernel=3)"},
      {"expected", "expected(20,sinks=1)"},
      {"lagkv", "lagkv(1,lag=3)"},
      {"noncausal", "noncausal(8)"},
      {"leverage", "leverage(2)"},
      {"compactor", "compactor(first=1,last=1,sketch=2,chunk=8)"},
      {"cur", "cur(1,window=5)"},
      {"capkv", "capkv(future=20,sinks=1)"},
      {"dropkv", "dropkv(3,kernel=1)"},
      {"rkv", "rkv(3,kernel=3)"},
      {"defensive", "defensive(3,kernel=3)"},
      {"cakescore", "cakescore(3,kernel=3)"},
      {"lavascore", "lavascore(3,kernel=3)"},
      {"vatp", "vatp(2)"},
      {"valuerange", "valuerange(1)"},
      {"vase", "vase(2,3,kernel=3,sinks=1)"},
      {"centrality", "centrality(sinks=1,recent=2)"},
      {"oracle", "oracle(2)"},
      {"expr", "expr(\"attn_sum\")"},
      {"recent", "recent(30%)"},
      {"sinks", "sinks(1)"},
      {"adakv", "adakv(0.6)"},
      {"pyramid", "pyramid(1.5)"},
      {"kvmerger", "kvmerger(auto,recent=2,heavy=1)"},
      {"cam", "cam(3)"},
      {"chunks", "chunks(4)"},
      {"pages", "pages(3)"},
  };
  const auto found = small.find(entry.name);
  return found == small.end() ? entry.name : found->second;
}

/// Every score of the catalogue that needs no file, plain and with each modifier; as `small` says.
inline std::vector<std::string> catalogue_specs(
    const std::map<std::string, std::string>& small = {}) {
  std::vector<std::string> specs;
  for (const PolicyEntry& score : policy_catalog()) {
    if (score.kind() != PartKind::score || !stands_alone(score)) continue;
    specs.push_back(score.example.empty() ? score.name : score.example);
    const std::string plain = specs.back();
    if (score.as<ScoreBuilder>() == nullptr) continue;
    for (const PolicyEntry& modifier : policy_catalog()) {
      // Dropped tokens leave whatever the budget: tests/analysis/intervention_test.cpp.
      if (modifier.kind() == PartKind::score || modifier.kind() == PartKind::removal) continue;
      if (!stands_alone(modifier) || !goes_with(score, modifier)) continue;
      const auto found = small.find(modifier.name);
      specs.push_back(plain + "+" + (found == small.end() ? modifier.name : found->second));
    }
  }
  return specs;
}

/// Whether a running model can follow the part by its name (or example) alone.
inline bool runs_in_a_model(const PolicyEntry& entry) {
  return (entry.name == "expr" || !asks_for_more(entry)) && !entry.traits.needs_future &&
         !entry.traits.reads_sequence && !entry.traits.reads_structure;
}

/// Every example of the catalogue that a running model can follow without a file.
inline std::vector<std::string> examples_for_a_model() {
  std::vector<std::string> specs;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (!runs_in_a_model(entry)) continue;
    const bool score = entry.kind() == PartKind::score;
    specs.push_back(!entry.example.empty() ? entry.example
                    : score                ? entry.name
                                           : "h2o+" + entry.name);
  }
  return specs;
}

}  // namespace kvloupe::test

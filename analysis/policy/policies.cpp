#include "analysis/policy/modifiers/modifiers.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe {

void kvloupe_list_policies(std::vector<PolicyEntry>& parts) {
  const auto add = [&](const char* name, bool score, void (*fill)(PolicyEntry&)) {
    PolicyEntry& entry = parts.emplace_back();
    entry.name = name;
    entry.traits.reads_queries = score;
    fill(entry);
  };
#define KVLOUPE_SCORE_ENTRY(name) add(#name, true, policies::name);
#define KVLOUPE_MODIFIER_ENTRY(name) add(#name, false, policies::name);
  KVLOUPE_SCORES(KVLOUPE_SCORE_ENTRY) KVLOUPE_MODIFIERS(KVLOUPE_MODIFIER_ENTRY)
#undef KVLOUPE_SCORE_ENTRY
#undef KVLOUPE_MODIFIER_ENTRY
}

}  // namespace kvloupe

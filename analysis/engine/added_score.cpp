#include "analysis/base/core/error.h"
#include "analysis/engine/calls.h"
#include "analysis/plugin/kvloupe/policy_plugin.h"
#include "analysis/plugin/plugin_entry.h"
#include "analysis/policy/kit/outside_parts.h"

int32_t kvloupe_engine_add_score(const kvloupe_score* score, char* error) {
  using namespace kvloupe;
  return engine::guarded(error, [&] {
    engine::require(score, "score");
    PolicyEntry entry = plugin_entry("the calling program", *score);
    if (is_taken(entry.name)) throw UsageError("the name " + entry.name + " is taken");
    add_policy(std::move(entry));
  });
}

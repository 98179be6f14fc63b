#include "app/window/state/finding_job.h"

#include <imgui.h>

#include "analysis/error.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/replay/follow_json.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

void FindingJob::request(const PanelContext& c, const std::string& model) {
  const TracePointer trace = c.results.trace();
  if (!trace) return finding_.clear();
  Key key{c.results.trace_key(), {}, model,         c.state.policy_a,
          c.state.budget,        {}, c.state.block, c.state.compression};
  const int entries = key.budget.resolve(trace->run().prompt_length);
  try {
    key.tokens = named_tokens(*trace, c.state.followed);
  } catch (const UsageError&) {
    return finding_.clear();  // told where it is typed
  }
  // An open rescue counts only if it is for these tokens, this policy and this budget.
  EvaluationPointer rescue = c.results.rescue();
  if (rescue &&
      (rescue->rescue->tokens != key.tokens || rescue->rescue->policy != key.policy.text() ||
       rescue->rescue->budget != entries)) {
    rescue = nullptr;
  }
  if (rescue) key.rescue = rescue->path.string() + rescue->identity;
  finding_.request(c.results.comparing(), key,
                   [trace, key, entries, rescue, replays = c.results.replays()](Progress& progress,
                                                                                const auto&) {
                     ReplayRequest wanted{.policy = key.policy,
                                          .budget = entries,
                                          .block = key.block,
                                          .compression = key.compression,
                                          .metrics = false,
                                          .followed = key.tokens,
                                          .background = true};
                     const auto reads = replays->reads(*trace, key.tokens, true, progress);
                     const auto replay = replays->get(*trace, wanted, progress);
                     const AskOptions asking{.background = true, .states = &replays->states()};
                     Progress part(progress, 0);
                     const std::vector<FollowedHead> heads =
                         follow(*replay, *reads, key.tokens,
                                restored_heads(*trace, *replay, key.tokens, asking, part));
                     const std::string text = key.policy.text(), budget = key.budget.text();
                     return finding({*trace, key.tokens, text, budget, entries, key.block,
                                     key.compression, heads, restored_over(*trace, *replay),
                                     rescue ? &*rescue->rescue : nullptr, key.model});
                   });
}

void copy_finding(const PanelContext& c, const Finding& finding) {
  ImGui::SetClipboardText(finding.text().c_str());
  c.tell("Copied the finding: three sentences, and the commands that repeat them");
}

}  // namespace kvloupe::window

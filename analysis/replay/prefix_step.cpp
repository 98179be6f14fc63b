#include "analysis/replay/prefix_step.h"

#include <utility>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

PrefixStep::PrefixStep(const LayerStates& states, const LayerContext& context, int tokens)
    : context_(context),
      whole_{states.queries, states.keys, states.values},
      attention_(context.model, context.attention) {
  const Block block{0, tokens};
  view_.block = block;
  view_.first_token = first_seen(tokens, context.model.reach());
  std::vector<int> hidden;
  for (std::size_t head = 0; head < states.keys.size(); ++head) {
    HeadCache& cache =
        caches_.emplace_back(context.model.head_dim, context.model.value_width(), true);
    cache.append(block, rows(view(states.keys[head]), 0, tokens),
                 rows(view(states.values[head]), 0, tokens));
    cache.hide_first(cache.count_before(view_.first_token));
    hidden.push_back(cache.hidden());
  }
  for (const HeadCache& cache : caches_) {
    view_.caches.push_back(cache.view());
    read_.push_back(cache.whole());
  }
  for (const Matrix& queries : states.queries) {
    view_.queries.push_back(rows(view(queries), 0, tokens));
  }
  attention_.begin(read_, view_.queries, std::move(hidden));
  view_.attention = &attention_;
  view_.whole = &whole_;
}

std::vector<std::vector<std::int32_t>> PrefixStep::kept(const PolicySpec& policy, int budget) {
  LayerContext context = context_;
  context.budget = budget;
  context.prompt_length = view_.block.end;  // all of what is read here
  if (has_part(policy, PartKind::storage)) {
    throw UsageError(
        "policy: " + policy.text() +
        ": this figure measures which entries are lost, not their bits; leave quant out");
  }
  const auto acting = make_layer_policy(policy, context);
  std::vector<std::vector<std::int32_t>> kept;
  for (HeadDecision& decision : acting->step(view_)) kept.push_back(std::move(decision.kept));
  return kept;
}

}  // namespace kvloupe

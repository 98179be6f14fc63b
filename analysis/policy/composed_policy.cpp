#include "analysis/policy/composed_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/error.h"

namespace kvloupe {

namespace {
void keep_everything(HeadDecision& decision, std::size_t n) {
  decision.kept.resize(n);
  std::iota(decision.kept.begin(), decision.kept.end(), 0);
}
}  // namespace

ComposedPolicy::ComposedPolicy(std::string name, const LayerContext& context, PolicyOptions options,
                               std::unique_ptr<Score> score, const Protection& protection,
                               std::unique_ptr<Allocation> allocation,
                               std::unique_ptr<Selection> selection)
    : name_(std::move(name)),
      layer_(context.layer),
      for_heads_(context.for_heads),
      options_(options),
      score_(std::move(score)),
      protection_(protection.with(score_->protection())),
      allocation_(std::move(allocation)),
      selection_(std::move(selection)) {
  if (!for_heads_) {
    for_heads_ = [](int count, const std::function<void(int)>& body) {
      for (int i = 0; i < count; ++i) body(i);
    };
  }
}

std::vector<HeadDecision> ComposedPolicy::step(const StepView& view) {
  const int heads = static_cast<int>(view.caches.size());
  std::vector<HeadDecision> decisions(view.caches.size());
  for_heads_(heads, [&](int head) { score_->observe(view, head); });

  const bool evict = allocation_->over_budget(view);
  std::vector<std::vector<float>> scores(view.caches.size());
  if (evict || options_.always_score) {
    score_->prepare(view);
    for_heads_(heads, [&](int head) {
      auto& own = scores[static_cast<std::size_t>(head)];
      own = score_->score(view, head);
      check_scores(view, head, own);
    });
  }
  std::vector<int> quotas;
  if (evict) quotas = allocation_->quotas(view, scores, protection_);

  for_heads_(heads, [&](int head) {
    const auto index = static_cast<std::size_t>(head);
    HeadDecision& decision = decisions[index];
    const std::span<const std::int32_t> tokens = view.caches[index].tokens;
    decision.scores = std::move(scores[index]);
    decision.threshold = std::numeric_limits<float>::quiet_NaN();
    if (!evict || static_cast<std::size_t>(quotas[index]) >= tokens.size()) {
      keep_everything(decision, tokens.size());
    } else {
      decision.fates = protection_.fates(tokens, quotas[index]);
      const auto unprotected =
          std::count(decision.fates.begin(), decision.fates.end(), Fate::evicted);
      const int is_protected =
          static_cast<int>(decision.fates.size()) - static_cast<int>(unprotected);
      selection_->select(view, head, quotas[index] - is_protected, decision);
      for (std::size_t row = 0; row < tokens.size(); ++row) {
        if (decision.fates[row] != Fate::evicted) {
          decision.kept.push_back(static_cast<std::int32_t>(row));
        }
      }
    }
    score_->retain(view, head, decision);
  });
  return decisions;
}

void ComposedPolicy::check_scores(const StepView& view, int head,
                                  const std::vector<float>& scores) const {
  const auto wrong =
      std::find_if(scores.begin(), scores.end(), [](float score) { return !std::isfinite(score); });
  if (wrong == scores.end()) return;
  const auto row = static_cast<std::size_t>(wrong - scores.begin());
  throw WorkError(name_ + ": the score of layer " + std::to_string(layer_) + ", head " +
                  std::to_string(head) + ", token " +
                  std::to_string(view.caches[static_cast<std::size_t>(head)].tokens[row]) +
                  " at step " + std::to_string(view.step) +
                  " is not a finite number; check the trace's states");
}

}  // namespace kvloupe

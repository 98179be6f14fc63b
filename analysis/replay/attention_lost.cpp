#include "analysis/replay/attention_lost.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/math/later_attention.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/kit/whole_pass.h"
#include "analysis/replay/cache/cache_attention.h"
#include "analysis/replay/cache/head_cache.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/record/head_states.h"
#include "analysis/replay/record/layer_states.h"

namespace kvloupe {

namespace {

/// The first tokens of a layer, read at once with the full cache: what a policy that then acts once
/// keeps of them. That is how libraries compress a prompt after it was read. Several policies and
/// budgets share the step's attention. Not thread-safe.
class PrefixStep {
 public:
  /// The first `tokens` of the states, which must have queries and values and outlive this object.
  /// The context's budget does not count.
  PrefixStep(const LayerStates& states, const LayerContext& context, int tokens);
  PrefixStep(const PrefixStep&) = delete;
  PrefixStep& operator=(const PrefixStep&) = delete;

  /// The entries there are before the policy acts, ascending: those that later queries see.
  std::span<const std::int32_t> tokens() const { return caches_.front().tokens(); }
  /// For each head [Hk] the rows of tokens() that the policy keeps, ascending. Throws what
  /// make_layer_policy() and the policy throw.
  std::vector<std::vector<std::int32_t>> kept(const PolicySpec& policy, int budget);

 private:
  const LayerContext context_;
  const WholeSequence whole_;
  std::vector<HeadCache> caches_;  // [Hk]
  std::vector<CacheView> read_;    // [Hk]: with what only the prefix's own queries see
  CacheAttention attention_;
  StepView view_;
};

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

void check(const Trace& trace, const AttentionLostRequest& request) {
  for (const PolicySpec& policy : request.policies) {
    check_probe(policy, trace);
    check_residual(policy, trace);
  }
  if (request.prefix < 1 || request.prefix >= trace.length()) {
    throw UsageError("prefix of " + std::to_string(request.prefix) + " tokens: must be 1 to " +
                     std::to_string(trace.length() - 1) + ", so that later queries can judge");
  }
  for (const int budget : request.budgets) {
    if (budget < 1) throw UsageError("budget " + std::to_string(budget) + ": must be at least 1");
    for (const PolicySpec& policy : request.policies) {
      check_limits(policy, trace.model(), budget, request.prefix);
    }
  }
}

/// Mean over the query heads that count, of the head's: [tokens].
std::vector<double> mean_later_attention(const LayerStates& states, const LayerContext& context,
                                         const AttentionLostRequest& request, int head,
                                         std::span<const std::int32_t> tokens, Progress& progress) {
  const int group = context.model.group_size();
  const bool one = request.query_head >= 0 && context.model.head_of(request.query_head) == head;
  const int first = one ? request.query_head : head * group;
  const int count = one ? 1 : group;
  std::vector<double> mean(tokens.size(), 0.0);
  for (int query_head = first; query_head < first + count; ++query_head) {
    const auto index = static_cast<std::size_t>(query_head);
    const std::vector<double> own = later_attention(
        view(states.queries[index]), view(states.keys[static_cast<std::size_t>(head)]),
        states.logsumexp[index], tokens, request.prefix, context.attention.of(query_head),
        context.model.reach(), progress);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / count;
  }
  return mean;
}

/// Σ of the smallest, by how many: [n + 1], as parts of all.
std::vector<double> least_sums(std::vector<double> attention) {
  std::sort(attention.begin(), attention.end());
  std::vector<double> sums = {0.0};
  for (const double one : attention) sums.push_back(sums.back() + one);
  const double all = sums.back();
  for (double& sum : sums) {
    sum = all > 0.0 ? sum / all : std::numeric_limits<double>::quiet_NaN();
  }
  return sums;
}

/// The point of the entries from row `first` on that are not kept.
AttentionLost::Point point_of(const std::vector<double>& attention,
                              const std::vector<std::int32_t>& kept, std::size_t first,
                              double all) {
  AttentionLost::Point point;
  double lost = 0.0;
  auto next = kept.begin();
  for (std::size_t row = 0; row < attention.size(); ++row) {
    if (next != kept.end() && static_cast<std::size_t>(*next) == row) {
      ++next;
    } else if (row >= first) {
      ++point.evicted;
      lost += attention[row];
    }
  }
  point.lost = all > 0.0 ? lost / all : std::numeric_limits<double>::quiet_NaN();
  return point;
}

StateParts parts_of(const AttentionLostRequest& request) {
  StateParts parts{.value_norms = false, .logsumexp = true};
  parts.output_weights =
      std::any_of(request.policies.begin(), request.policies.end(), [](const PolicySpec& policy) {
        return has_trait(policy, &PolicyTraits::reads_output_weights);
      });
  return parts;
}

std::vector<AttentionLost> of_layer(const Trace& trace, const AttentionLostRequest& request,
                                    const SequenceTables& tables, int layer,
                                    const HeadLoop& for_heads, Progress& progress) {
  const StateParts parts = parts_of(request);
  const auto states = layer_states(request.states, trace, layer, parts, progress);
  LayerContext context{.layer = layer,
                       .model = trace.layer_model(layer),
                       .attention = trace.attention(layer),
                       .output_weights = states->output_weights,
                       .for_heads = for_heads,
                       .sequence = &tables,
                       .progress = &progress};
  PrefixStep step(*states, context, request.prefix);
  const std::span<const std::int32_t> tokens = step.tokens();
  const auto first = static_cast<std::size_t>(
      std::lower_bound(tokens.begin(), tokens.end(), request.sinks) - tokens.begin());
  const auto heads = static_cast<std::size_t>(context.model.num_kv_heads);
  std::vector<AttentionLost> result(heads);
  std::vector<std::vector<double>> attention(heads);
  std::vector<double> all(heads);
  for_heads(context.model.num_kv_heads, [&](int head) {
    const auto index = static_cast<std::size_t>(head);
    attention[index] = mean_later_attention(*states, context, request, head, tokens, progress);
    const std::vector<double> counted(attention[index].begin() + static_cast<std::ptrdiff_t>(first),
                                      attention[index].end());
    AttentionLost& own = result[index];
    own.layer = layer;
    own.head = head;
    own.entries = static_cast<int>(counted.size());
    own.least = least_sums(counted);
    all[index] = std::accumulate(counted.begin(), counted.end(), 0.0);
  });
  for (const PolicySpec& policy : request.policies) {
    for (AttentionLost& own : result) own.points.emplace_back();
    for (const int budget : request.budgets) {
      progress.check();
      const std::vector<std::vector<std::int32_t>> kept = step.kept(policy, budget);
      for (std::size_t head = 0; head < heads; ++head) {
        result[head].points.back().push_back(
            point_of(attention[head], kept[head], first, all[head]));
      }
    }
  }
  return result;
}
}  // namespace

std::vector<AttentionLost> attention_lost(const Trace& trace, const AttentionLostRequest& request,
                                          Progress& progress) {
  check(trace, request);
  std::vector<int> layers = request.layers;
  if (layers.empty()) layers = trace.storing_layers();
  progress.set_total(static_cast<long>(layers.size()));
  progress.count("layers", std::ssize(layers));
  // A policy may know nothing of the sequence but the part that is compressed.
  const SequenceTables tables(trace, request.prefix, &progress);
  std::vector<std::vector<AttentionLost>> parts(layers.size());
  LayerLoop loop;
  loop.most_at_once = layers_at_once(layer_bytes(trace, parts_of(request)), kLargeLayer);
  for_layers(layers.size(), loop, [&](std::size_t index, const HeadLoop& for_heads) {
    parts[index] = of_layer(trace, request, tables, layers[index], for_heads, progress);
    progress.advance();
  });
  std::vector<AttentionLost> result;
  for (std::vector<AttentionLost>& part : parts) {
    for (AttentionLost& head : part) result.push_back(std::move(head));
  }
  return result;
}

}  // namespace kvloupe

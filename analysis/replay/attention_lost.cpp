#include "analysis/replay/attention_lost.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "analysis/error.h"
#include "analysis/metric/later_attention.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/kit/whole_pass.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/record/head_states.h"
#include "analysis/replay/layer_loop.h"
#include "analysis/replay/prefix_step.h"

namespace kvloupe {

namespace {
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
  StateParts parts;
  parts.logsumexp = true;
  parts.value_norms = false;
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
  LayerContext context;
  context.layer = layer;
  context.model = trace.layer_model(layer);
  context.attention = trace.attention(layer);
  context.output_weights = states->output_weights;
  context.for_heads = for_heads;
  context.sequence = &tables;
  context.progress = &progress;
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

#include "app/session/head_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "analysis/metric/sink.h"
#include "analysis/numeric/set_overlap.h"

namespace kvloupe::window {

namespace {
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// The mean over each head's query heads.
void take_group_means(GridValues& grid, const Matrix& of_query_heads) {
  const Matrix means = mean_of_query_heads(of_query_heads, grid.heads);
  grid.values.assign(means.data(), means.data() + means.size());  // row-major, as the grid
}
}  // namespace

GridValues no_values(int layers, int heads) {
  GridValues grid;
  grid.layers = layers;
  grid.heads = heads;
  grid.values.assign(static_cast<std::size_t>(layers) * static_cast<std::size_t>(heads), kNone);
  return grid;
}

void find_limits(GridValues& grid) {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const double value : grid.values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (grid.whole_share) {
    grid.least = 0.0;
    grid.most = 1.0;
  } else if (least <= most) {
    grid.least = least;
    grid.most = most;
  }
}

const std::vector<GridMetric>& grid_metrics() {
  static const std::vector<GridMetric> kMetrics = [] {
    std::vector<GridMetric> list;
    constexpr const char* kAsked =
        " Measured with the queries that write the answer, each with the entries in the cache when "
        "it comes; without an answer, with the question's queries; without both, with later ones. "
        "Over the whole replay, whatever the step.";
    static const std::string asked[] = {
        std::string("The head's part of the change in the model: the length of "
                    "(o' - o) W_O, relative to the outputs of all heads of all layers added up.") +
            kAsked,
        std::string("The change of the layer's attention output, its heads added with their signs, "
                    "relative to that output. The same for all heads of a layer.") +
            kAsked,
        std::string("Attention that falls on entries which the cache still holds.") + kAsked};
    list.push_back({"change of the output", asked[0], GridMetric::From::policy, nullptr, nullptr,
                    "residual_part"});
    list.push_back(
        {"layer's change", asked[1], GridMetric::From::policy, nullptr, nullptr, "layer_error"});
    list.push_back({"attention kept, later", asked[2], GridMetric::From::policy, nullptr, nullptr,
                    "kept_attention"});
    for (const Measure& measure : all_measures()) {
      const MeasureInfo& info = *measure.info;
      if (info.label.empty()) continue;
      list.push_back({info.label, info.help, GridMetric::From::policy, &measure});
    }
    list.push_back({"entries kept", "Entries the head holds after the step."});
    list.push_back(
        {kFollowedMetric,
         "Share of the followed tokens that are still in the head's cache after the step. "
         "A dot: the share of the answer's attention (else the question's) that reads them with "
         "the full cache. A large dot on a dark cell is a head that reads tokens that it lost."});
    list.push_back({"overlap A, B",
                    "Share of the tokens kept by either policy that both keep (Jaccard).",
                    GridMetric::From::both_policies});
    list.push_back(
        {"attention to token 0",
         "Mean of A[q,0] over the queries after token 0, with the full cache, mean over the head's "
         "query heads. The same for every policy and step. Above 0.3 a head counts as a sink head. "
         "After StreamingLLM §3.1.",
         GridMetric::From::trace});
    // The sink's own is the measure above.
    static std::vector<std::pair<std::string, std::string>> texts;
    for (const RoleInfo& role : role_catalog()) {
      if (role.value == &HeadRoles::sink) continue;
      texts.emplace_back(fmt::format("role: {}", role.label),
                         fmt::format("{}, with the full cache, mean over the head's query heads: "
                                     "{}. The same for every policy and step. A query head is "
                                     "named so from {:g} on. {}.",
                                     role.title, role.formula, role.threshold, role.source));
    }
    std::size_t at = 0;
    for (const RoleInfo& role : role_catalog()) {
      if (role.value == &HeadRoles::sink) continue;
      list.push_back({texts[at].first, texts[at].second, GridMetric::From::trace, nullptr, &role});
      ++at;
    }
    GridMetric effective{"effective tokens",
                         "exp of the entropy of the attention: over how many tokens a query "
                         "spreads its attention, mean over the queries and over the head's query "
                         "heads, with the full cache. The same for every policy and step. This "
                         "measure takes some seconds: it needs the attention of all queries.",
                         GridMetric::From::trace};
    effective.effective_tokens = true;
    list.push_back(effective);
    return list;
  }();
  return kMetrics;
}

const Measure* grid_measure(const GridMetric& metric, const Trace& trace) {
  if (metric.asked == nullptr) return metric.measure;
  const Asked asked = asked_first(trace.tokens(), trace.run());
  // Without output weights nobody knows what heads add to the residual stream.
  const char* const name = trace.has_output_weight() ? metric.asked : "kept_attention";
  return &require_measure(std::string(asked_name(asked)) + "_" + name);
}

const GridMetric* find_grid_metric(std::string_view name) {
  const auto& all = grid_metrics();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const GridMetric& m) { return m.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::size_t heads_known(const std::vector<TokenReads>& heads, std::string_view metric) {
  const GridMetric* known = find_grid_metric(metric);
  if (!known || !known->of_reads()) return 0;
  return static_cast<std::size_t>(
      std::count_if(heads.begin(), heads.end(), [&](const TokenReads& head) {
        return known->role ? !head.roles.empty() : !std::isnan(head.effective_tokens);
      }));
}

double overlap(const HeadReplay& a, const HeadReplay& b, int step_a, int step_b, int first_unseen) {
  const auto keeps = [](const HeadReplay& head, int step) {
    return [&head, step](std::int32_t token) {
      const int gone = head.evicted_at[static_cast<std::size_t>(token)];
      return gone < 0 || gone > step;
    };
  };
  const std::size_t seen = std::min({static_cast<std::size_t>(std::max(first_unseen, 0)),
                                     a.evicted_at.size(), b.evicted_at.size()});
  return set_overlap(0, static_cast<std::int32_t>(seen), keeps(a, step_a), keeps(b, step_b))
      .jaccard(kNone);
}

GridValues grid_values(std::string_view metric, const GridSources& sources, int layers, int heads,
                       int step) {
  GridValues grid = no_values(layers, heads);
  const GridMetric* known = find_grid_metric(metric);
  if (known && known->of_reads()) {
    for (const TokenReads& head : sources.roles ? *sources.roles : std::vector<TokenReads>()) {
      if (head.layer >= layers || head.head >= heads) continue;
      if (known->effective_tokens) {
        grid.at(head.layer, head.head) = head.effective_tokens;
        continue;
      }
      if (head.roles.empty()) continue;  // read for another measure
      double sum = 0.0;
      for (const HeadRoles& roles : head.roles) sum += roles.*known->role->value;
      grid.at(head.layer, head.head) = sum / static_cast<double>(head.roles.size());
    }
    find_limits(grid);
    return grid;
  }
  if (known && known->from == GridMetric::From::trace) {
    if (sources.sinks) take_group_means(grid, *sources.sinks);
    find_limits(grid);
    return grid;
  }
  const Replay* a = sources.a;
  const Replay* b = sources.b;
  if (!a) return grid;
  for (const HeadReplay& head : a->heads) {
    if (head.layer >= layers || head.head >= heads || step < 0 ||
        static_cast<std::size_t>(step) >= head.steps.size()) {
      continue;
    }
    const StepRecord& record = head.steps[static_cast<std::size_t>(step)];
    double value = kNone;
    if (known && known->measure) {
      value = measure_at(*known->measure, record);
    } else if (metric == "entries kept") {
      value = record.retained;
    } else if (metric == kFollowedMetric) {
      if (sources.followed != nullptr && !sources.followed->empty()) {
        value = token_fate(*a, head, *sources.followed).share[static_cast<std::size_t>(step)];
      }
    } else if (metric == "overlap A, B") {
      const HeadReplay* other = b ? b->find(head.layer, head.head) : nullptr;
      if (other && static_cast<std::size_t>(step) < a->blocks.size()) {
        value = overlap(head, *other, step, step, a->blocks[static_cast<std::size_t>(step)].end);
      }
    }
    grid.at(head.layer, head.head) = value;
  }
  grid.whole_share = metric == kFollowedMetric;
  find_limits(grid);
  return grid;
}

void keep_missing(GridValues& fresh, const GridValues& older) {
  if (fresh.layers != older.layers || fresh.heads != older.heads) return;
  for (std::size_t i = 0; i < fresh.values.size(); ++i) {
    if (!std::isfinite(fresh.values[i])) fresh.values[i] = older.values[i];
  }
  find_limits(fresh);
}

}  // namespace kvloupe::window

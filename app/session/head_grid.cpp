#include "app/session/head_grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "analysis/metric/sink.h"
#include "analysis/metric/tightness.h"
#include "analysis/numeric/set_overlap.h"

namespace kvloupe::window {

namespace {
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void find_limits(GridValues& grid) {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const double value : grid.values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (least <= most) {
    grid.least = least;
    grid.most = most;
  }
}

/// The mean over each head's query heads.
void take_group_means(GridValues& grid, const Matrix& of_query_heads) {
  const Matrix means = mean_of_query_heads(of_query_heads, grid.heads);
  grid.values.assign(means.data(), means.data() + means.size());  // row-major, as the grid
}
}  // namespace

const std::vector<GridMetric>& grid_metrics() {
  static const std::vector<GridMetric> kMetrics = {
      {"retained mass",
       "Sum of the attention on the kept entries, for the step's last query, mean over the head's "
       "query heads. CriticalKV §3 (S)."},
      {"perturbation ℒ",
       "ℒ = ‖((A − A′)V)W_O‖₁: how much the head's output changes, after W_O, for the step's last "
       "query. CriticalKV §3."},
      {"bound θ",
       "θ = C − (2 − 1/S)·Σ over kept of Aᵢ‖vᵢW_O‖₁, an upper bound of ℒ. CriticalKV theorem 3.3."},
      {"tightness ℒ/θ",
       "ℒ divided by its bound θ: 1 if the bound is exact; – if θ is 0 (no kept entry has "
       "attention). CriticalKV theorem 3.3."},
      {"log volume",
       "Σ log λ of KᵀK of the kept keys, over λ > n·eps·λ_max: the log pseudo-determinant. After "
       "KeyDiff figure 5."},
      {"entries kept", "Entries the head holds after the step."},
      {"overlap A, B", "Share of the tokens kept by either policy that both keep (Jaccard).",
       GridMetric::From::both_policies},
      {"attention to token 0",
       "Mean of A[q,0] over the queries after token 0, with the full cache, mean over the head's "
       "query heads. The same for every policy and step. Above 0.3 a head counts as a sink head. "
       "After StreamingLLM §3.1.",
       GridMetric::From::trace},
  };
  return kMetrics;
}

const GridMetric* find_grid_metric(std::string_view name) {
  const auto& all = grid_metrics();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const GridMetric& m) { return m.name == name; });
  return found == all.end() ? nullptr : &*found;
}

double group_mean(const StepRecord& record, double QueryHeadMetrics::*measure) {
  if (record.query_heads.empty()) return kNone;
  double sum = 0.0;
  for (const QueryHeadMetrics& metrics : record.query_heads) sum += metrics.*measure;
  return sum / static_cast<double>(record.query_heads.size());
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
  GridValues grid{layers, heads, {}, 0.0, 0.0};
  grid.values.assign(static_cast<std::size_t>(layers) * static_cast<std::size_t>(heads), kNone);
  const GridMetric* known = find_grid_metric(metric);
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
    if (metric == "retained mass") {
      value = group_mean(record, &QueryHeadMetrics::retained_mass);
    } else if (metric == "perturbation ℒ") {
      value = group_mean(record, &QueryHeadMetrics::perturbation_l1);
    } else if (metric == "bound θ") {
      value = group_mean(record, &QueryHeadMetrics::bound_l1);
    } else if (metric == "tightness ℒ/θ") {
      value = tightness(group_mean(record, &QueryHeadMetrics::perturbation_l1),
                        group_mean(record, &QueryHeadMetrics::bound_l1));
    } else if (metric == "log volume") {
      value = record.log_pseudo_determinant;
    } else if (metric == "entries kept") {
      value = record.retained;
    } else if (metric == "overlap A, B") {
      const HeadReplay* other = b ? b->find(head.layer, head.head) : nullptr;
      if (other && static_cast<std::size_t>(step) < a->blocks.size()) {
        value = overlap(head, *other, step, step, a->blocks[static_cast<std::size_t>(step)].end);
      }
    }
    grid.values[static_cast<std::size_t>(head.layer) * static_cast<std::size_t>(heads) +
                static_cast<std::size_t>(head.head)] = value;
  }
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

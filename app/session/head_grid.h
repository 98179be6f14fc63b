#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/replay/replay.h"
#include "app/session/state.h"

namespace kvloupe::window {

/// One measure the layers × heads grid can show.
struct GridMetric {
  std::string_view name;
  std::string_view tooltip;  // formula and source
  enum class From { policy, both_policies, trace } from = From::policy;
};
const std::vector<GridMetric>& grid_metrics();
/// The measure of that name; nullptr where there is none.
const GridMetric* find_grid_metric(std::string_view name);

/// The grid's numbers: one per head, NaN if there is none (yet).
struct GridValues {
  int layers = 0;
  int heads = 0;
  std::vector<double> values;  // [layers, heads]
  double least = 0.0;          // over the known numbers
  double most = 0.0;
};

/// The inputs of the numbers; nullptr if they are not there (yet).
struct GridSources {
  const Replay* a = nullptr;
  const Replay* b = nullptr;
  const Matrix* sinks = nullptr;  // [L,Hq], of sink_strengths() at token 0
};
/// O(layers · heads), but O(layers · heads · T) for the overlap.
GridValues grid_values(std::string_view metric, const GridSources& sources, int layers, int heads,
                       int step);

/// Heads without a number take that of the older grid.
void keep_missing(GridValues& fresh, const GridValues& older);

/// Mean over the head's query heads of one measure at a step; NaN if there is none.
double group_mean(const StepRecord& record, double QueryHeadMetrics::*measure);

/// Share of the tokens kept by either that both keep after a step (Jaccard).
double overlap(const HeadReplay& a, const HeadReplay& b, int step_a, int step_b, int first_unseen);

}  // namespace kvloupe::window

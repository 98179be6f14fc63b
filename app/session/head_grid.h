#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/record/records.h"
#include "analysis/replay/follow.h"
#include "app/session/state.h"

namespace kvloupe::window {

/// One number the layers × heads grid can show.
struct GridMetric {
  std::string_view name;
  std::string_view tooltip;  // formula and source
  enum class From { policy, both_policies, trace } from = From::policy;
  const Measure* measure = nullptr;  // of the catalogue: has to be measured
  const RoleInfo* role = nullptr;    // of the heads, with the full cache
  /// Of queries that come later, whichever the trace has: the measure's name after "answer_".
  const char* asked = nullptr;
  bool effective_tokens = false;  // of the heads, with the full cache

  /// Whether its numbers are those of GridSources::roles.
  bool of_reads() const { return role != nullptr || effective_tokens; }
};
/// The catalogue's measures that have a label, then what needs no measuring.
const std::vector<GridMetric>& grid_metrics();
/// The measure of that name; nullptr where there is none.
const GridMetric* find_grid_metric(std::string_view name);

/// The measure that the grid shows of a trace; nullptr where it needs no measuring.
const Measure* grid_measure(const GridMetric& metric, const Trace& trace);

/// The grid's numbers: one per head, NaN if there is none (yet).
struct GridValues {
  int layers = 0;
  int heads = 0;
  std::vector<double> values;  // [layers, heads]
  double least = 0.0;          // over the known numbers
  double most = 0.0;
  bool whole_share = false;  // the limits are 0 and 1, whatever the numbers are

  double& at(int layer, int head) { return values[index(layer, head)]; }
  double at(int layer, int head) const { return values[index(layer, head)]; }

 private:
  std::size_t index(int layer, int head) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(heads) +
           static_cast<std::size_t>(head);
  }
};
GridValues no_values(int layers, int heads);
/// Fills least and most.
void find_limits(GridValues& grid);

/// How many of the heads have the number that the measure shows: a role, or the effective tokens.
std::size_t heads_known(const std::vector<TokenReads>& heads, std::string_view metric);

/// The name of the measure that is of the followed tokens.
inline constexpr std::string_view kFollowedMetric = "followed tokens";

/// The inputs of the numbers; nullptr if they are not there (yet).
struct GridSources {
  const Replay* a = nullptr;
  const Replay* b = nullptr;
  const Matrix* sinks = nullptr;                   // [L,Hq], of sink_strengths() at token 0
  const std::vector<TokenReads>* roles = nullptr;  // of the heads known so far
  const std::vector<int>* followed = nullptr;      // ascending
};
/// Of a measure: what the replays' records have of it. O(layers · heads), but O(layers · heads · T)
/// for the overlap.
GridValues grid_values(std::string_view metric, const GridSources& sources, int layers, int heads,
                       int step);

/// Heads without a number take that of the older grid.
void keep_missing(GridValues& fresh, const GridValues& older);

/// Share of the tokens kept by either that both keep after a step (Jaccard).
double overlap(const HeadReplay& a, const HeadReplay& b, int step_a, int step_b, int first_unseen);

}  // namespace kvloupe::window

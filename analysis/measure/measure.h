#pragma once
// A measure is one number about a head, with its description. A family is a group of measures that
// are computed together: one file in this folder and one line in measure_catalog.cpp. With that
// line the JSON of `kvloupe replay`, the columns of `kvloupe sweep`, the overview figure and
// docs/measures.md include the family.

#include <span>
#include <string>
#include <vector>

#include "analysis/measure/measured_step.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

/// What a measure has one value for.
enum class MeasureScope {
  query_head,  // per query head and step: of the step's last query
  step,        // per head and step
  replay,      // per head, of a whole replay
  trace        // per head, of the trace alone: no policy is needed
};
const char* scope_name(MeasureScope scope);

/// Which values are better.
enum class Better { smaller, larger, neither };

/// The value that represents a whole replay: the mean over the steps from the first eviction on
/// (without an eviction: the last step) and over the query heads, or the last step.
enum class Summary { mean, last };

/// The description of one measure, and where its value is stored.
struct MeasureInfo {
  std::string name;     // JSON key, sweep column, --set measure=
  std::string title;    // short, with its symbol: for a colour bar
  std::string unit;     // "" for a plain number
  std::string formula;  // plain text
  std::string source;
  Better better = Better::neither;
  Summary summary = Summary::mean;
  bool share = false;  // lies between 0 and 1
  // Measures that are fields of their record are read from there; all others are read from the
  // values that the family's compute() fills. Fields of a replay are always read.
  double (*of_query_head)(const QueryHeadMetrics&) = nullptr;
  double (*of_step)(const StepRecord&) = nullptr;
  double (*of_replay)(const HeadReplay&) = nullptr;
};

/// The inputs of a measure of the trace alone.
struct MeasuredHead {
  const LayerStates& states;
  const LayerContext& context;
  int head = 0;
  Progress& progress;  // long work checks it for cancellation
};

/// Measures that are computed together. An unknown number is NaN.
struct MeasureFamily {
  std::string name;    // heading in the docs
  std::string remark;  // one sentence or more: conditions, approximations; may be empty
  MeasureScope scope = MeasureScope::step;
  bool on_request = false;  // expensive: computed only if ReplayRequest::measures names it
  std::string needs_part;   // applies only to policies with this part; "": to all
  std::vector<MeasureInfo> measures;

  // At most one, the scope's own; none where all measures are fields. `values` [measures] is NaN
  // before. Different heads may be asked for at the same time.
  void (*of_query_head)(MeasuredStep&, int query_head, std::span<double> values) = nullptr;
  void (*of_step)(MeasuredStep&, std::span<double> values) = nullptr;
  void (*of_trace)(const MeasuredHead&, std::span<double> values) = nullptr;
};

}  // namespace kvloupe

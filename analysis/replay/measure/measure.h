#pragma once
// A measure is one number about a head, with its description. A family is a group of measures that
// are computed together: one file in this folder and one line in measures.h. With that line the
// JSON of `kvloupe replay`, the columns of `kvloupe sweep`, the overview figure and
// docs/measures.md include the family.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/math/head_roles.h"
#include "analysis/replay/measure/measured_step.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/given_tokens.h"

namespace kvloupe {

/// A measure has one value for each of these.
enum class MeasureScope {
  query_head,  // per query head and step: of the step's last query
  step,        // per head and step
  replay,      // per head, of a whole replay
  queries,     // the same, of queries that come later, each against the cache that it finds
  trace        // per head, of the trace alone: no policy is needed
};
const char* scope_name(MeasureScope scope);

/// The subjects of measures: the headings of lists and of the docs, in their order.
enum class MeasureGroup {
  later,      // what eviction changes for later queries
  step,       // what it changes for the step's last query
  kept,       // what is kept
  scores,     // scores, keys and attention
  full_cache  // the head with the full cache, whatever the policy
};
inline constexpr std::array kMeasureGroups{MeasureGroup::later, MeasureGroup::step,
                                           MeasureGroup::kept, MeasureGroup::scores,
                                           MeasureGroup::full_cache};
const char* group_title(MeasureGroup group);

/// Which values are better.
enum class Better { smaller, larger, neither };

/// The value that represents a whole replay: the mean over the steps from the first eviction on
/// (without an eviction: the last step) and over the query heads, or the last step.
enum class Summary { mean, last };

/// Whether each head has a value of its own, or the heads of a layer, or all heads, have the same
/// one. Only measures of single heads can rank heads.
enum class OneValueFor : unsigned char { head, layer, model };

/// The description of one measure, and where its value is stored.
struct MeasureInfo {
  std::string name;       // JSON key, sweep column, --set measure=
  std::string title;      // short, with its symbol: for a colour bar
  std::string unit = {};  // "" for a plain number
  std::string formula;    // plain text
  std::string source;
  Better better = Better::neither;
  Summary summary = Summary::mean;
  bool share = false;  // lies between 0 and 1
  /// 0 means nothing: colour limits follow the values alone.
  bool any_origin = false;
  OneValueFor one_value_for = OneValueFor::head;
  /// A measure that stands in brackets beside its value in the window's readouts. "": none.
  std::string beside = {};
  /// A share of the measure of this name: if the whole is known and this share is not, the whole is
  /// empty, and a mean leaves the share out.
  std::string share_of = {};
  /// The name in the window's readouts and in sessions. "": not in the readouts.
  std::string label = {};
  std::string help = {};  // what the number says, for lists and the docs; a sentence or more
  /// For a measure of a replay: the measures per query head or step whose values it is made of.
  std::vector<std::string> made_of = {};
  StateParts reads = {};  // beyond keys and the steps' last queries, to compute its value
  // Read from the record where the replay itself left it there; all others are read from the
  // values that the family's function fills. Fields of a replay are always read.
  double (*of_step)(const StepRecord&) = nullptr;
  double (*of_replay)(const HeadReplay&) = nullptr;
};

/// The inputs of a measure of the trace alone.
struct MeasuredHead {
  const LayerStates& states;
  const LayerContext& context;
  int head = 0;
  Progress& progress;                  // long work checks it for cancellation
  const RoleTokens* tokens = nullptr;  // what is known of the sequence; null: nothing
};

/// Measures that are computed together. An unknown number is NaN.
struct MeasureFamily {
  MeasureGroup group = MeasureGroup::step;
  std::string name;    // heading in the docs
  std::string remark;  // one sentence or more: conditions, approximations; may be empty
  MeasureScope scope = MeasureScope::step;
  bool on_request = false;  // expensive: computed only where one of it is asked for by name
  std::string needs_part;   // applies only to policies with this part; "": to all
  /// Known at every step or at none: where one value is unknown, so is the mean. Else the mean is
  /// over the known values.
  bool at_every_step = false;
  bool reads_scores = false;   // scores or fates of the decision, which a record does not hold
  bool of_full_cache = false;  // values at a step are of the captured prefix, whatever the policy
  std::vector<MeasureInfo> measures;

  /// For the scope queries: whose queries. replay/ask.h computes all of a family, whichever is
  /// asked for.
  std::optional<Asked> asked = {};
  bool of_evidence = false;  // the same, of what became of the answer's evidence: replay/evidence.h

  // At most one, the scope's own; none where all measures are read. `values` [measures] is NaN
  // before. Different heads may be asked for at the same time. States that none of the measures
  // asked for reads may be missing: what needs them stays NaN.
  void (*of_query_head)(MeasuredStep&, int query_head, std::span<double> values) = nullptr;
  void (*of_step)(MeasuredStep&, std::span<double> values) = nullptr;
  void (*of_trace)(const MeasuredHead&, std::span<double> values) = nullptr;
};

}  // namespace kvloupe

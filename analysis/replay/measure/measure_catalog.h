#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/replay/measure/measure.h"

namespace kvloupe {

/// Every family, in the order of JSON keys, sweep columns and the docs.
const std::vector<MeasureFamily>& measure_catalog();

/// Adds a family from outside of this folder, after the others. To be called at the start of a
/// program: throws std::logic_error once the catalogue was read.
void add_measures(MeasureFamily family);

/// One measure of the catalogue.
struct Measure {
  const MeasureInfo* info = nullptr;
  const MeasureFamily* family = nullptr;
  int slot = -1;  // index among the computed values of its scope; -1: a field
};

/// All measures of all families, in the catalogue's order.
const std::vector<Measure>& all_measures();
/// Null for an unknown name.
const Measure* find_measure(std::string_view name);
/// Throws UsageError naming the nearest valid one.
const Measure& require_measure(std::string_view name);
/// Whether it can have a value under this policy.
bool applies(const Measure& measure, const PolicySpec& policy);

/// The value at a step, for one query head of the group, or with −1 the mean over the query heads
/// (of a computed measure: over those with a known value). NaN if unknown: not computed, or not
/// applicable. Only for the scopes query_head and step.
double measure_at(const Measure& measure, const StepRecord& record, int query_head = -1);
/// One number for a head's whole replay, for any scope, by the measure's own summary.
double measure_of(const Measure& measure, const HeadReplay& head);
/// The first step at which anything left, or the last step.
std::size_t first_measured_step(const HeadReplay& head);

/// Which measures to compute. A family is computed whole, or not at all.
struct MeasureChoice {
  bool cheap = true;                        // all that are not on request
  std::span<const std::string> names = {};  // and these; "all": every one
  /// Only what measure_of() reads: steps from the first eviction on, and of families whose measures
  /// all stand for the last step, that step.
  bool summary = false;
};
/// These, and the measures per step whose values they are made of.
std::vector<std::string> with_made_of(std::span<const std::string> names);
/// The states that computing them for this policy reads, beyond keys and the steps' last queries.
StateParts parts_read(const MeasureChoice& choice, const PolicySpec& policy);
/// Whether one of them that applies to the policy is made of its scores or fates.
bool reads_scores(const MeasureChoice& choice, const PolicySpec& policy);

/// Whose queries the choice asks; in the order of kAllAsked.
std::vector<Asked> asked_by(const MeasureChoice& choice);
/// Whether it asks what became of the answer's evidence.
bool asks_evidence(const MeasureChoice& choice);
/// Sets a head's value of a measure of the scope queries, by its name.
void set_asked(const std::string& name, double value, HeadReplay& head);
/// The same of the measure "question_NAME", "answer_NAME" or "later_NAME".
void set_asked(Asked asked, std::string_view name, double value, HeadReplay& head);

/// Fills the record's values of a step, and a head's values of the trace. `last`: the replay's last
/// step.
void measure_step(MeasuredStep& step, const MeasureChoice& choice, bool last, StepRecord& record);
std::vector<double> measure_head(const MeasuredHead& head, const MeasureChoice& choice);

}  // namespace kvloupe

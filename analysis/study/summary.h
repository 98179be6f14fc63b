#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/study/study_results.h"
#include "analysis/study/study_statistics.h"

namespace kvloupe {

/// One measure under one policy, budget and block, over the traces of a study.
struct SummaryRow {
  std::string measure, policy, budget, block;
  std::string first_policy;                // the study's first with a budget
  int traces = 0, contexts = 0;            // with a known value; contexts that questions share
  std::optional<MeanInterval> value = {};  // the mean over traces; none without one
  /// Means of the paired differences, from the first policy at this budget and from the full cache,
  /// and the number of traces that both have.
  int pairs = 0, full_pairs = 0;
  std::optional<MeanInterval> from_first = {}, from_full = {};
};

/// Summarises the items that are done. Rows are ordered by measure, then block, then budget, then
/// policy, in the study's order. A trace's value is the mean over its heads. Intervals are over
/// contexts where several questions share one (context_of()). Throws FileError for
/// results of several models.
std::vector<SummaryRow> summarise(StudyResults& results);

/// The mean of the differences of two settings on the prompts that have a value of both, by their
/// names, and how many these are.
std::optional<MeanInterval> paired_difference(const std::map<std::string, double>& values,
                                              const std::map<std::string, double>& others,
                                              bool share, int& pairs);

/// A table in Markdown for each measure.
std::string summary_markdown(const std::vector<SummaryRow>& rows);

}  // namespace kvloupe

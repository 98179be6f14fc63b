#pragma once
// Which measure of a study a reader sees where nobody chose one.

#include <string>
#include <vector>

#include "analysis/study/study_table.h"

namespace kvloupe {

/// The measures of the study that have values, in the order in which they tell most of the model's
/// answers: answers found by runs in the model; `answer_residual_change` of replays; then the other
/// measures that compare policies (compares_policies()), those of replays by how well they foretold
/// a real model's answers (foretold_answers()), then shares, then the rest; at the end measures
/// that compare no policies. Measures of the same place stand in the file's order.
std::vector<std::string> measures_in_order(const StudyTable& study);

/// The first of measures_in_order(), and why, for a reader. Both empty: the study has no values.
struct FirstMeasure {
  std::string name, why;
};
FirstMeasure first_measure(const StudyTable& study);

/// Whether more or less of a measure is better, the policy changes it, and every policy with items
/// of it has a value. `measure`: its place in study.measures.
bool compares_policies(const StudyTable& study, std::size_t measure);

}  // namespace kvloupe

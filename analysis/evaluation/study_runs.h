#pragma once

#include "analysis/evaluation/evaluation.h"

namespace kvloupe {

/// Fills in the runs behind the results of a study: one run for each item, in the order of their
/// numbers, with the answers that the file kept of those in the model; and model and fingerprint.
/// Throws FileError as StudyResults does.
void add_study_runs(Evaluation& evaluation);

/// Whether an item of a study can be run again: its prompt is in the file.
bool has_prompt(const EvaluationRun& run);

}  // namespace kvloupe

#pragma once

#include <string>

#include "analysis/study/study_results.h"

namespace kvloupe {

/// Writes the finest values that a study kept (Reduce) as CSV, a line each: trace, policy, budget,
/// entries, block, tokens, compression, measure, layer, head, step, value; and the policy's terms
/// of comparison in words (ComparisonTerms): question, prompt_compressed, budget_counts. A cell is
/// empty where a value is of all layers and heads or of the whole replay, and where it is not
/// known. Equal results give equal bytes, however many processes computed them. "-": standard
/// output. Throws FileError.
void write_study_csv(StudyResults& results, const std::string& target);

}  // namespace kvloupe

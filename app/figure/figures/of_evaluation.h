#pragma once
// The common part of the figures made from results of kvloupe-capture eval and rescue.

#include <string>

#include "analysis/evaluation/evaluation.h"
#include "app/figure/figure.h"

namespace kvloupe::figure {

/// A catalogue line with the needs of such a figure; `verb` of kvloupe-capture writes the results.
FigureInfo evaluation_figure(std::string name, std::string title, std::string tooltip,
                             const char* verb = "eval");

/// Why a file is not of kvloupe-capture eval: the one line that sends a person to what shows it.
/// Empty where it is.
std::string why_no_evaluation(const Evaluation& evaluation);

/// The evaluated budget nearest to the one chosen, as written; a count is of the mean prompt. Empty
/// where only the full cache was run.
std::string evaluated_budget(const FigureInput& input);

}  // namespace kvloupe::figure

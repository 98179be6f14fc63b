#pragma once
// One function per figure, one file each, listed once in figure_catalog.cpp.

#include "app/figure/figure.h"

namespace kvloupe::figure {

FigureInfo overview_figure();
FigureInfo similarity_figure();
FigureInfo attention_figure();
FigureInfo pca_figure();
FigureInfo filmstrip_figure();
FigureInfo tokens_figure();
FigureInfo head_budgets_figure();
FigureInfo policy_diff_figure();
FigureInfo agreement_figure();
FigureInfo budget_curve_figure();
FigureInfo sinks_figure();
FigureInfo why_figure();

}  // namespace kvloupe::figure

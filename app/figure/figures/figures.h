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

}  // namespace kvloupe::figure

#pragma once

#include <span>
#include <string_view>

#include "app/figure/figure.h"

namespace kvloupe::figure {

/// Every figure, in the order of the view menu.
std::span<const FigureInfo> figure_catalog();

/// Adds a figure from outside of this folder, after the project's own. To be called at the start of
/// a program: throws std::logic_error once the catalogue was read.
void add_figure(FigureInfo info);

/// Throws UsageError naming the nearest valid figure.
const FigureInfo& find_figure(std::string_view name);

/// Throws UsageError for a choice that the figure does not have, or a wrong value.
void check_choices(const FigureInfo& info, const Choices& choices);

/// The selection with its open fields filled in (query head, step, last token), every field checked
/// against the trace. `steps` is the number of steps of the replay in use (or of the trace). Throws
/// UsageError naming the field and the trace's range.
Selection resolve(const Selection& selection, const Trace& trace, int steps);

/// A head for the first picture: the middle layer, head 0.
Selection default_selection(const Trace& trace);

/// The layer that attends nearest to this one; of two, the later.
int nearest_layer(const Trace& trace, int layer);

}  // namespace kvloupe::figure

#pragma once

#include <string>
#include <vector>

#include "app/scene/scene.h"
#include "app/scene/style.h"

namespace kvloupe::figure {

/// Texts that stand on marks that carry data, in words; empty for a sound figure. A text stands on
/// a mark where its letters (from the baseline to the height of capitals) meet
///   - a point, or a line of a colour of its own, also one that is drawn over the text;
///   - the edge of an area or a map; within one area, and within one cell of a map, a text is that
///     area's or that cell's own.
/// What carries no data: grid, gaps and frames in the colours of grid and paper, axes, ticks and
/// outlines in ink along or outside the plots, pale bands. A text with a ground of its own hides
/// what is below it, and may: what is drawn after the ground counts.
std::vector<std::string> texts_on_data(const Scene& scene, const Style& style);

/// Names of axes, titles and labels of which a part is cut off: texts that end in, or hold, "…".
std::vector<std::string> cut_texts(const Scene& scene);

}  // namespace kvloupe::figure

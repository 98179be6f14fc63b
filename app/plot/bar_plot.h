#pragma once
// Bars in a plot whose axes are drawn.

#include "app/plot/series.h"

namespace kvloupe::figure {

/// One bar from `from` to `to` on the value axis. It is the `place`-th of `count` that share cell
/// `cell` of the name axis. `upright`: values along y. An unfilled look has a paper-coloured bar
/// with an outline.
void add_bar(Scene& scene, const Style& style, const Axes& axes, double cell, double from,
             double to, const SeriesLook& look, int place = 0, int count = 1, bool upright = true);

/// A bar's number beside its end, if there is room.
void add_bar_number(Scene& scene, const Style& style, const Axes& axes, double cell, double to,
                    const std::string& text, int place = 0, int count = 1, bool upright = true);

}  // namespace kvloupe::figure

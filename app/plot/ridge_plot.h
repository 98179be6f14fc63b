#pragma once
// Distributions as ridges, one above the other, in a plot whose axes are already drawn: values
// along x, named rows along y.

#include <span>
#include <vector>

#include "app/plot/frame.h"

namespace kvloupe::figure {

/// A smooth estimate of the frequency of values, at `points` even places from low to high, with
/// maximum 1: a Gaussian kernel of Silverman's width over a fine histogram. Values outside the
/// range and those that are not finite are left out; all 0 if none are left.
std::vector<double> density(std::span<const float> values, double low, double high, int points);

/// One ridge over cell `cell` of the y axis, as high as the cell, with a tick at its median. The
/// selected ridge has the colour of a selection and a heavier line.
void add_ridge(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const float> values, bool chosen);

}  // namespace kvloupe::figure

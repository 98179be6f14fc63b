#pragma once

#include <string>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// The scene as an SVG 1.1 file: text as <text> with font families and fallbacks, editable in any
/// drawing program; each image as an embedded PNG; settings in <metadata>, the caption in <desc>.
/// Lengths are points. With `pixels_per_point` > 0 the outer size is given in pixels.
std::string write_svg(const Scene& scene, double pixels_per_point = 0.0);

}  // namespace kvloupe::figure

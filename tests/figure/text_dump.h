#pragma once

#include <string>
#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// The errors of a scene, one line each; empty if there are none: a number that is not finite, a
/// path whose points do not fit its verbs, an image without pixels, clips that do not balance, text
/// outside the page or over other text, axes that cannot be inverted.
std::vector<std::string> scene_problems(const Scene& scene);

/// The scene as text, one line per item, lengths to a tenth of a point: the baseline of tests. For
/// more than 24 points it gives the mean places of 24 parts, for an image the mean colours of 8×8
/// parts. Throws WorkError naming the first problem.
std::string write_text_dump(const Scene& scene);

}  // namespace kvloupe::figure

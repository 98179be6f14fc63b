#pragma once

#include "app/figure/scene.h"

namespace kvloupe::figure {

/// An image's pixels, each repeated so often that the drawn image has at least `per_inch` pixels an
/// inch. For files that other programs draw: many smooth what they enlarge, whatever the file asks
/// for, and blur cells into one another; at 300 an inch the eye does not see it. Images that are to
/// be smooth, or have that many pixels, come back as they are; none grows beyond 2²⁴ pixels.
std::shared_ptr<const Pixels> enlarged(const Image& image, double per_inch = 300.0);

}  // namespace kvloupe::figure

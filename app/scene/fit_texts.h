#pragma once

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// For small pages: removes texts that are outside the page or overlap a text that was added
/// earlier. A page of the figure's own size has no such texts.
void keep_fitting_texts(Scene& scene);

}  // namespace kvloupe::figure

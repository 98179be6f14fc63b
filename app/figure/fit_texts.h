#pragma once

#include "app/figure/scene.h"

namespace kvloupe::figure {

/// For small pages: takes texts out of the scene that lie outside the page or upon a text that was
/// added before them. On a page of the figure's own size there are none.
void keep_fitting_texts(Scene& scene);

}  // namespace kvloupe::figure

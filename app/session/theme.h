#pragma once

#include "app/scene/style.h"

namespace kvloupe::window {

/// The window's and its figures'.
using Theme = figure::Theme;

}  // namespace kvloupe::window

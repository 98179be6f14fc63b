#pragma once

#include <span>

#include "capture/model/family.h"

namespace kvloupe {

/// Every family kvloupe runs, one entry each.
std::span<const Family> families();

}  // namespace kvloupe

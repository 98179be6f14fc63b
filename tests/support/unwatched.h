#pragma once

#include "analysis/base/core/progress.h"

namespace kvloupe::test {

/// The progress of work that a test neither watches nor stops.
inline Progress unwatched;

}  // namespace kvloupe::test

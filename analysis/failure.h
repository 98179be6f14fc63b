#pragma once

#include <string_view>

namespace kvloupe {

/// Call inside a catch-all handler: writes one line about the exception in flight to stderr and
/// returns the exit code: 2 for UsageError, 1 for everything else.
int report_failure(std::string_view program);

}  // namespace kvloupe

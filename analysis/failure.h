#pragma once

#include <string_view>

namespace kvloupe {

/// Call inside a catch-all handler: writes one line about the exception in flight to stderr and
/// returns the exit code: 2 for UsageError, 1 for everything else.
int report_failure(std::string_view program);

/// Call at the end with the exit code: 1 in place of 0, and a line on stderr, where standard output
/// did not take all that was printed, as on a full disk.
int end_output(std::string_view program, int code);

}  // namespace kvloupe

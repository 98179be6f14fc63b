#pragma once

#include <string>

namespace kvloupe::cli {

/// "5%" or "0.05" as a number. Throws UsageError, naming the verb and the quantity of the share.
double parse_share(const std::string& text, const char* verb, const char* what);

}  // namespace kvloupe::cli

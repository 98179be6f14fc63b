#pragma once

#include <string>

#include "analysis/policy/spec.h"

namespace kvloupe {

/// A text that changes when a file that the policy reads changes: path, size and modification time
/// of each file; empty if it reads none. Part of the key of every result computed with the policy.
/// Never fails: a missing file has a text of its own.
std::string policy_files(const PolicySpec& policy);

}  // namespace kvloupe

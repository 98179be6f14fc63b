#pragma once

#include <string>

#include "analysis/policy/spec.h"

namespace kvloupe {

/// A text that changes when a file that the policy reads does: path, size and time of the last
/// change of each; empty where it reads none. Part of the key of everything that is computed with
/// the policy. Never fails: a file that is missing has a text of its own.
std::string policy_files(const PolicySpec& policy);

}  // namespace kvloupe

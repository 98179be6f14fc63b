#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analysis/policy/kit/spec.h"

namespace kvloupe {

/// A text that changes when a file that the policy reads changes, or the plugin that it comes from:
/// path, size and modification time of each file; empty if there is none. Part of the key of every
/// result computed with the policy. Never fails: a missing file has a text of its own. Files are
/// looked for as with_files_from() does; the text has their names as written.
std::string policy_files(const PolicySpec& policy, const std::filesystem::path& folder = {});

/// The policy with the files that it names by a relative path from this folder, where they are
/// there; others stay as they are, from the current folder.
PolicySpec with_files_from(const std::filesystem::path& folder, PolicySpec policy);

/// The shared libraries that parts of the policy come from, each once.
std::vector<std::string> policy_plugins(const PolicySpec& policy);

}  // namespace kvloupe

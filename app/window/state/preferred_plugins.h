#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::window {

/// Loads the policy plugins that the preferences list (docs/plugins.md). The window opens whatever
/// they are like: the result says in one line for each what is wrong with those that were not
/// loaded. Call it before anything reads the catalogue of policies.
std::vector<std::string> load_preferred_plugins(const std::filesystem::path& preferences);

}  // namespace kvloupe::window

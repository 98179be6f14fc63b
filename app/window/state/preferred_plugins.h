#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::window {

/// Loads the policy plugins that the preferences list (docs/plugins.md). The window opens whatever
/// they are like: the result has one line with the error for each plugin that was not loaded. Call
/// it before anything reads the catalogue of policies.
std::vector<std::string> load_preferred_plugins(const std::filesystem::path& preferences);

}  // namespace kvloupe::window

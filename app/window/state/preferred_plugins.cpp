#include "app/window/state/preferred_plugins.h"

#include "analysis/error.h"
#include "analysis/plugin/load_plugin.h"
#include "app/window/state/preferences.h"

namespace kvloupe::window {

std::vector<std::string> load_preferred_plugins(const std::filesystem::path& preferences) {
  std::vector<std::string> problems;
  for (const std::string& file : read_preferences(preferences).plugins) {
    try {
      load_plugin(file);
    } catch (const FileError& problem) {
      problems.emplace_back(problem.what());
    }
  }
  return problems;
}

}  // namespace kvloupe::window

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::window {

/// The path of the stored list: $XDG_STATE_HOME/kvloupe/recent, else ~/.local/state/kvloupe/recent;
/// empty if neither is known.
std::filesystem::path recent_files_path();

/// The recently opened traces, newest first; one absolute path per line in the file. A missing or
/// broken list counts as empty; one that cannot be written is kept in memory only.
class RecentFiles {
 public:
  explicit RecentFiles(std::filesystem::path list);
  /// Puts a file at the top and writes the list.
  void add(const std::filesystem::path& file);
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::filesystem::path list_;
  std::vector<std::string> files_;
};

}  // namespace kvloupe::window

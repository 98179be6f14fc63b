#include "app/window/state/recent_files.h"

#include <system_error>

#include "analysis/user_folder.h"
#include "app/window/state/line_list.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kMostFiles = 8;
constexpr std::uintmax_t kMostRecentBytes = 1 << 16;
}  // namespace

fs::path recent_files_path() {
  const fs::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  return folder.empty() ? fs::path() : folder / "recent";
}

RecentFiles::RecentFiles(fs::path list) : list_(std::move(list)) {
  for (std::string& line : read_lines(list_, kMostRecentBytes)) {
    if (files_.size() < kMostFiles && is_listed_path(line)) files_.push_back(std::move(line));
  }
}

void RecentFiles::add(const fs::path& file) {
  std::error_code error;
  const std::string name = fs::absolute(file, error).lexically_normal().string();
  if (error || !is_listed_path(name)) return;
  if (!files_.empty() && files_.front() == name) return;
  std::erase(files_, name);
  files_.insert(files_.begin(), name);
  if (files_.size() > kMostFiles) files_.resize(kMostFiles);
  write_lines(list_, files_);
}

}  // namespace kvloupe::window

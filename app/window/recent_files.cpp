#include "app/window/recent_files.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "analysis/error.h"
#include "app/figure/output_file.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kMostFiles = 8;
constexpr std::size_t kLongestPath = 4096;
constexpr std::uintmax_t kMostBytes = 1 << 16;

bool is_plausible(const std::string& line) {
  return !line.empty() && line.size() <= kLongestPath && line.front() == '/' &&
         std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; });
}
}  // namespace

fs::path recent_files_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state && *state == '/') return fs::path(state) / "kvloupe/recent";
  const char* home = std::getenv("HOME");
  if (home && *home == '/') return fs::path(home) / ".local/state/kvloupe/recent";
  return {};
}

RecentFiles::RecentFiles(fs::path list) : list_(std::move(list)) {
  std::error_code error;
  if (!fs::is_regular_file(list_, error) || fs::file_size(list_, error) > kMostBytes) return;
  std::ifstream in(list_);
  for (std::string line; files_.size() < kMostFiles && std::getline(in, line);) {
    if (is_plausible(line)) files_.push_back(line);
  }
}

void RecentFiles::add(const fs::path& file) {
  std::error_code error;
  const std::string name = fs::absolute(file, error).lexically_normal().string();
  if (error || !is_plausible(name)) return;
  if (!files_.empty() && files_.front() == name) return;
  std::erase(files_, name);
  files_.insert(files_.begin(), name);
  if (files_.size() > kMostFiles) files_.resize(kMostFiles);
  if (list_.empty()) return;
  fs::create_directories(list_.parent_path(), error);
  std::string text;
  for (const std::string& each : files_) text += each + '\n';
  try {
    figure::write_whole_file(list_, text);
  } catch (const FileError&) {  // a convenience: not worth a word
  }
}

}  // namespace kvloupe::window

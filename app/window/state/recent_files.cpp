#include "app/window/state/recent_files.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/system/user_files.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

void WrittenFiles::start(job::JobQueue& queue, std::function<std::string(Progress&)> write) {
  files_.push_back(std::make_unique<job::Computed<std::string>>());
  files_.back()->request(
      queue, "file",
      [write = std::move(write)](Progress& progress, const auto&) { return write(progress); });
}

void WrittenFiles::follow(const PanelContext& c) {
  std::string said, wrong;
  std::erase_if(files_, [&](const auto& file) {
    if (file->computing()) return false;
    const std::string error = file->error();
    const auto written = file->current();
    std::string& lines = error.empty() ? said : wrong;
    lines += (lines.empty() ? "" : "\n") + (error.empty() && written ? *written : error);
    return true;
  });
  if (!said.empty()) c.tell(said);
  if (!wrong.empty()) c.fail(wrong);
}

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

std::vector<std::string> read_lines(const fs::path& file, std::uintmax_t most_bytes) {
  std::vector<std::string> lines;
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > most_bytes) return lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void write_lines(const fs::path& file, const std::vector<std::string>& lines) {
  if (file.empty()) return;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  try {
    write_whole_file(file, text);
  } catch (const FileError&) {  // a convenience: not worth a word
  }
}

bool is_listed_path(const std::string& line) {
  constexpr std::size_t kLongestPath = 4096;
  return !line.empty() && line.size() <= kLongestPath && line.front() == '/' &&
         std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; });
}

}  // namespace kvloupe::window

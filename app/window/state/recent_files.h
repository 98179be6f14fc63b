#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/job/computed.h"

namespace kvloupe::window {

struct PanelContext;

/// Files that background jobs write, any number at a time: a second one does not end the first.
class WrittenFiles {
 public:
  /// `write` writes a file and returns what to say then.
  void start(job::JobQueue& queue, std::function<std::string(Progress&)> write);
  /// Says of each file once that it is written, or what went wrong. Call once per frame.
  void follow(const PanelContext& context);
  bool writing() const { return !files_.empty(); }

 private:
  std::vector<std::unique_ptr<job::Computed<std::string>>> files_;
};

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

// Short lists that the window remembers from one start to the next, one entry a line.

/// The lines of a file; none where it is missing or has more bytes than `most_bytes`.
std::vector<std::string> read_lines(const std::filesystem::path& file, std::uintmax_t most_bytes);

/// Writes the lines, and the folder if it is missing. Where that fails nothing is said: the list is
/// a convenience. Nothing is written where `file` is empty.
void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines);

/// Whether a line can be a path as these lists hold it: absolute, of a sane length, without control
/// characters.
bool is_listed_path(const std::string& line);

}  // namespace kvloupe::window

#pragma once

#include <filesystem>
#include <string>

namespace kvloupe {

/// Keeps a second study from a results file: a file beside it, NAME.lock, locked as long as this
/// object lives. The system takes the lock back when the process ends in any way; the lock file
/// that a killed study leaves behind does no harm.
class StudyLock {
 public:
  /// Throws FileError where another study has the lock, and where the lock file cannot be made.
  explicit StudyLock(const std::filesystem::path& results);
  ~StudyLock();
  StudyLock(const StudyLock&) = delete;
  StudyLock& operator=(const StudyLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace kvloupe

#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>

namespace kvloupe {

/// Identifies an open file with its content: device, inode, size, the times of its last changes,
/// its first and last 64 KiB, and the versions of kvloupe and HDF5, because what passes under one
/// version says little of another. The time of the last change (ctime) cannot be set by a program,
/// so other content has another fingerprint. Empty where the file cannot be read.
std::string trace_fingerprint(int descriptor);

/// The traces that were found good, or that this program wrote. Thread-safe.
class KnownTraces {
 public:
  /// `list`: a file that keeps them from one start to the next, 66 bytes a trace, at most
  /// 256 KiB. Damaged lines are ignored, and so is the whole list if another user could have
  /// written it. Empty: the traces are known as long as this object lives.
  explicit KnownTraces(std::filesystem::path list) : list_(std::move(list)) {}

  bool knows(const std::string& fingerprint);
  /// A list that cannot be written changes nothing but the time of the next check.
  void add(const std::string& fingerprint);

 private:
  std::filesystem::path list_;
  std::mutex mutex_;
  std::set<std::string> known_;
};

}  // namespace kvloupe

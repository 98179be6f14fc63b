#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>

#include "analysis/base/core/progress.h"

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

// HDF5 is known to crash on some files made for that purpose, and on some damage. So a trace that
// this program neither wrote nor read before is first walked through by a child process, which may
// crash (walk_trace(), confinement.h).

/// Call this in the first line of main(). From then on this process checks every trace that it
/// opens. A process that was itself started to check a trace does that and ends.
void begin_trace_checks(int argc, char** argv);

/// How begin_trace_checks() sets checks up, for tests: the program that is started to check, and
/// where the traces that passed are kept (KnownTraces). An empty program: nothing is checked, as in
/// programs that never call this. Call it while no other thread opens traces.
void set_trace_checks(const std::string& program, const std::filesystem::path& known);

/// Returns at once where this process checks nothing or knows the file, or after a child has walked
/// through it. A file that cannot be opened is left to its reader. Throws FileError: damaged, made
/// to do harm, or the child cannot be started; Cancelled through progress, which ends the child.
/// Takes no lock of HDF5 while it waits.
void check_trace(const std::filesystem::path& path, Progress& progress);
void check_trace(const std::filesystem::path& path);  // not to be cancelled

/// An open trace that this process has just written: it need not be checked. Call it after the last
/// change of its names.
void remember_trace(int descriptor);

/// Does everything with a trace that could make the HDF5 library fail later: opens it as Trace
/// does, with all its texts, looks at the header and the chunks of every dataset, reads the first
/// and the last number of each dataset that kvloupe reads, and unpacks the packed ones. The states
/// themselves are not read, so this takes some hundredths of a second, however long the trace is,
/// if it is not packed. Meant for a process that may crash (trace_check.h). Throws FileError.
void walk_trace(const std::filesystem::path& path);

}  // namespace kvloupe

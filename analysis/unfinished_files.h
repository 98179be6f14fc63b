#pragma once

#include <string>

namespace kvloupe {

/// The name of one unfinished file of this process (output_file.h), in memory that a signal handler
/// can reach.
class UnfinishedName {
 public:
  explicit UnfinishedName(const std::string& path);
  ~UnfinishedName();
  UnfinishedName(const UnfinishedName&) = delete;
  UnfinishedName& operator=(const UnfinishedName&) = delete;

 private:
  friend void remove_unfinished_files();
  struct Entry;
  Entry* entry_;
};

/// Removes all unfinished files of this process; for a signal handler that then ends the process.
/// In a child that has forked and not yet become another program, this does nothing.
void remove_unfinished_files();

/// For the beginning of main(): Ctrl C, SIGTERM and SIGHUP end the program as ever, but leave none
/// of its unfinished files.
void remove_unfinished_files_at_signals();

}  // namespace kvloupe

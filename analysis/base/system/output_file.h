#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// The place of a file of this name: the end of its symbolic links, which stay. Nothing if the name
/// is not a regular file (a device, a pipe, standard output under its name in /dev or /proc): such
/// a target is written through and never replaced.
std::optional<std::string> place_of_file(const std::string& target);

/// Throws FileError where `output` names a file that the same command reads. Names that are empty,
/// and "-", are nobody's file.
void refuse_own_input(const std::filesystem::path& output,
                      const std::vector<std::filesystem::path>& inputs);

/// Throws UsageError where two outputs of a command are one file, or both "-": the one written last
/// would replace the other. Empty names, devices and pipes are nobody's file.
void refuse_same_outputs(const std::vector<std::string>& outputs);

/// A file that is not there until it is whole. It grows beside its target, under a temporary name
/// that nobody else has and locked, with the permissions of any new file (mkstemp makes a private
/// one, and the umask cannot be read without changing it for all threads). If destroyed before
/// put_in_place(), it is gone.
///
/// A target that is no regular file gets the bytes in the end, from a file in the folder for
/// temporary files.
///
/// Each also removes what killed programs left beside the same target: such names that nobody holds
/// locked and nobody has written to for an hour.
class UnfinishedFile {
 public:
  /// Opens a new file for reading and writing; where that fails, error() is not 0.
  explicit UnfinishedFile(std::string target);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  /// errno of the opening, or 0.
  int error() const { return error_; }
  int descriptor() const { return descriptor_; }
  /// Its name until it is put in place.
  const std::string& path() const { return name_; }
  /// Once all is written: before the return, the bytes reach the disk, and then the file takes its
  /// target's name, in place of an earlier file. 0, or errno; then the target is as before.
  int put_in_place();

 private:
  /// All bytes to the target, which is no regular file. 0, or errno.
  int write_through();

  std::string target_, name_;            // name_: empty once it is in place
  std::optional<UnfinishedName> noted_;  // for signal handlers
  bool through_ = false;                 // the target stays what it is
  int descriptor_ = -1;
  int error_ = 0;
};

/// A text file that is written as a stream and then exists either in full or not at all
/// (UnfinishedFile). "-" is standard output; it and all that is no regular file are written
/// directly. A terminal gets no control characters (in_lines): texts may come from a file.
///
/// Every method throws FileError: folder missing or unwritable, disk full, a closed pipe.
class OutputFile {
 public:
  explicit OutputFile(std::string target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  [[noreturn]] void fail(const std::string& doing, int error) const;

  std::string target_;
  std::unique_ptr<UnfinishedFile> unfinished_;  // null: written directly
  std::FILE* file_ = nullptr;                   // null: finished
  bool terminal_ = false;
};

/// Writes a whole file at once. Throws FileError: the folder is missing or unwritable, the target
/// is a folder, the disk is full.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kvloupe

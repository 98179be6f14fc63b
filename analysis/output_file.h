#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvloupe {

/// Creates a new file beside the target, of a `name` that nobody else has, and opens it for
/// writing: its descriptor; −1 and errno where that fails. It has the permissions of any new file
/// (mkstemp makes a private one, and the umask cannot be read without changing it for all threads).
int create_beside(const std::string& target, std::string& name);

/// Gives a file that is whole under the name `from` the name `to`, replacing what was there. Its
/// bytes reach the disk before the name does, and the name before the return. 0, or errno; then
/// `to` is as before, and `from` is left to the caller.
int put_in_place(const std::string& from, const std::string& to);

/// A text file that is written as a stream and then exists either in full or not at all. It grows
/// under a temporary name beside its target; finish() fsyncs and renames it. If destroyed before
/// that, it removes what it wrote. "-" is standard output, written directly.
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
  std::string temporary_;  // empty: standard output, or renamed already
  std::FILE* file_ = nullptr;
};

/// Writes a whole file at once. Throws FileError: the folder is missing or unwritable, the target
/// is a folder, the disk is full.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kvloupe

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace kvloupe {

class MappedFile;

/// For the beginning of main(). A mapped file can lose pages: somebody makes it shorter, or its
/// disk fails. A read of such a page raises a signal that would end the program without a message.
/// From now on the program then ends with one line that names the file, and exit code 1. `program`
/// begins the line and must outlive the process's work.
void end_on_lost_pages(const char* program);

/// A whole file, mapped read-only.
class MappedFile {
 public:
  /// Throws FileError: missing, unreadable, not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

 private:
  friend void end_on_lost_pages(const char* program);
  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  struct Entry;
  Entry* entry_ = nullptr;  // for end_on_lost_pages()
};

}  // namespace kvloupe

#include "app/figure/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "analysis/error.h"

namespace kvloupe::figure {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      throw FileError(path.string(), "the disk is full; free some space");
    case EACCES:
    case EPERM:
    case EROFS:
      throw FileError(path.string(), "no permission to write; choose another folder");
    case ENOENT:
    case ENOTDIR:
      throw FileError(path.string(), "its folder does not exist; create it first");
    case EISDIR:
      throw FileError(path.string(), "is a folder; give a file name");
    default:
      throw FileError(path.string(), std::string("cannot be written (") + std::strerror(error) +
                                         "); try another folder");
  }
}

}  // namespace

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(path, EISDIR);
  std::string temporary = path.string() + ".XXXXXX.tmp";
  const int file = mkstemps(temporary.data(), 4);
  if (file < 0) fail(path, errno);
  int error = 0;
  for (std::size_t written = 0; written < bytes.size() && error == 0;) {
    const ssize_t n = ::write(file, bytes.data() + written, bytes.size() - written);
    if (n > 0) {
      written += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      error = n == 0 ? ENOSPC : errno;
    }
  }
  // mkstemp gives 0600; a figure is an ordinary file under the user's umask.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (error == 0 && ::fchmod(file, 0666 & ~mask) != 0) error = errno;
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail(path, error);
  }
}

}  // namespace kvloupe::figure

#include "analysis/study/study_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "analysis/error.h"

namespace kvloupe {

namespace {
/// Whether the open file still has this name: the study before may have removed it meanwhile.
bool still_named(int file, const std::string& path) {
  struct stat opened = {}, named = {};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}
}  // namespace

StudyLock::StudyLock(const std::filesystem::path& results) : path_(results.string() + ".lock") {
  constexpr mode_t kMode = 0666;  // less the umask
  while (true) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
    if (file_ < 0) {
      throw FileError(
          path_, std::string("cannot be written: ") + std::strerror(errno) + "; check the folder");
    }
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(file_);
      if (error == EWOULDBLOCK) {
        throw FileError(results.string(),
                        "another study is writing to it; wait for its end or choose another name");
      }
      throw FileError(path_, std::string("cannot be locked: ") + std::strerror(error) +
                                 "; choose a folder on a file system with locks");
    }
    if (still_named(file_, path_)) return;
    close(file_);
  }
}

StudyLock::~StudyLock() {
  unlink(path_.c_str());
  close(file_);
}

}  // namespace kvloupe

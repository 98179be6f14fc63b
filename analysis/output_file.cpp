#include "analysis/output_file.h"

#include <unistd.h>

#include <sys/stat.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "analysis/error.h"

namespace kvloupe {

OutputFile::OutputFile(std::string target) : target_(std::move(target)) {
  if (target_ == "-") {
    file_ = stdout;
    return;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(target_, ignored)) {
    throw FileError(target_, "is a folder; give the name of a file");
  }
  std::string name = target_ + ".XXXXXX.tmp";
  const int descriptor = mkstemps(name.data(), 4);
  if (descriptor < 0) fail("cannot be written", errno);
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(descriptor, 0666 & ~mask);  // mkstemps makes it private
  temporary_ = name;
  file_ = fdopen(descriptor, "wb");
  if (file_ == nullptr) {
    const int error = errno;
    close(descriptor);
    std::remove(temporary_.c_str());
    fail("cannot be written", error);
  }
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  if (file_ != nullptr) std::fclose(file_);
  std::remove(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    fail("cannot be written", errno);
  }
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail("cannot be written", errno);
  if (temporary_.empty()) return;
  if (fsync(fileno(file_)) != 0 && errno != EINVAL) fail("cannot be written", errno);
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) fail("cannot be written", errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be renamed", errno);
  temporary_.clear();
}

void OutputFile::fail(const std::string& doing, int error) const {
  throw FileError(target_ == "-" ? "standard output" : target_,
                  doing + " (" + std::strerror(error) +
                      "); check that its folder exists, may be written and has space");
}

}  // namespace kvloupe

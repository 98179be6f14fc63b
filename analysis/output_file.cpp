#include "analysis/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "analysis/error.h"

namespace kvloupe {

int create_beside(const std::string& target, std::string& name) {
  constexpr int kAttempts = 100;
  std::random_device random;
  int descriptor = -1;
  for (int i = 0; i < kAttempts; ++i) {
    name = fmt::format("{}.{:08x}.tmp", target, random());
    descriptor = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) break;
  }
  name.clear();
  return descriptor;
}

namespace {
/// 0, or errno. What cannot be synced (a pipe, a device) needs none.
int sync_to_disk(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  return error;
}
}  // namespace

int put_in_place(const std::string& from, const std::string& to) {
  if (const int error = sync_to_disk(from, O_RDWR); error != 0) return error;
  if (std::rename(from.c_str(), to.c_str()) != 0) return errno;
  const std::string folder = std::filesystem::path(to).parent_path().string();
  return sync_to_disk(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
}

OutputFile::OutputFile(std::string target) : target_(std::move(target)) {
  if (target_ == "-") {
    file_ = stdout;
    return;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(target_, ignored)) {
    throw FileError(target_, "is a folder; give the name of a file");
  }
  const int descriptor = create_beside(target_, temporary_);
  if (descriptor < 0) fail("cannot be written", errno);
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
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) fail("cannot be written", errno);
  if (const int error = put_in_place(temporary_, target_); error != 0) {
    fail("cannot be written", error);
  }
  temporary_.clear();
}

void OutputFile::fail(const std::string& doing, int error) const {
  throw FileError(target_ == "-" ? "standard output" : target_,
                  doing + " (" + std::strerror(error) +
                      "); check that its folder exists, is writable and has free space");
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  OutputFile file(path.string());
  file.write(bytes);
  file.finish();
}

}  // namespace kvloupe

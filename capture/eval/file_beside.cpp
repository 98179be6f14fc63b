#include "capture/eval/file_beside.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/trace/trace_check.h"

namespace kvloupe {

FileBeside::FileBeside(const std::string& target) {
  const int file = create_beside(target, name_);
  if (file < 0)
    throw FileError(target, std::string("cannot write beside it: ") + std::strerror(errno));
  ::close(file);
}

FileBeside::~FileBeside() {
  remove_name();
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string FileBeside::without_name() {
  descriptor_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw FileError(name_, std::string("cannot open: ") + std::strerror(errno));
  remove_name();
  remember_trace(descriptor_);
  return "/proc/self/fd/" + std::to_string(descriptor_);
}

void FileBeside::remove_name() const {
  std::error_code ignored;
  std::filesystem::remove(name_, ignored);
}

}  // namespace kvloupe

#include "analysis/file_identity.h"

#include <fmt/format.h>

namespace kvloupe {

std::string file_identity(const struct stat& status) {
  return fmt::format("{}-{}.{:09}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace kvloupe

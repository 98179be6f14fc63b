#include "analysis/free_space.h"

#include <sys/statvfs.h>

namespace kvloupe {

std::optional<std::uint64_t> free_space(const std::filesystem::path& folder) {
  struct statvfs status {};
  const std::filesystem::path here = folder.empty() ? std::filesystem::path(".") : folder;
  if (statvfs(here.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace kvloupe

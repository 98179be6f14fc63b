#include "analysis/user_folder.h"

#include <cstdlib>

namespace kvloupe {

std::filesystem::path user_folder(const char* variable, const char* in_home) {
  const char* folder = std::getenv(variable);
  if (folder && *folder == '/') return std::filesystem::path(folder) / "kvloupe";
  const char* home = std::getenv("HOME");
  if (home && *home == '/') return std::filesystem::path(home) / in_home / "kvloupe";
  return {};
}

}  // namespace kvloupe

#include "analysis/assets.h"

#include <system_error>

#include "analysis/error.h"

namespace kvloupe {

namespace fs = std::filesystem;

fs::path assets_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  // A build folder has a link in the place where the assets of an installed program are.
  return (program.parent_path() / KVLOUPE_ASSETS_FROM_PROGRAM).lexically_normal();
}

fs::path find_asset(const std::string& name) {
  std::error_code error;
  const fs::path asset = assets_folder() / name;
  if (!fs::exists(asset, error)) {
    throw FileError(asset.string(), "is missing; reinstall kvloupe, or configure its build again");
  }
  return asset;
}

}  // namespace kvloupe

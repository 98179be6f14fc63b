#include "app/demo/assets.h"

#include <system_error>

#include "analysis/error.h"

namespace kvloupe::demo {

namespace fs = std::filesystem;

fs::path assets_folder() {
  std::error_code error;
  const auto holds_assets = [&](const fs::path& folder) {
    return fs::is_directory(folder / "demo-model", error);
  };
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path installed = program.parent_path().parent_path() / "share/kvloupe";
    if (holds_assets(installed)) return installed;
  }
  const fs::path source = KVLOUPE_ASSETS;
  if (holds_assets(source)) return source;
  throw WorkError(
      "the demo model and the lessons are neither in share/kvloupe beside the program's folder nor "
      "in the source it was built from; install kvloupe anew");
}

}  // namespace kvloupe::demo

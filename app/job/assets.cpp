#include "app/job/assets.h"

#include <string_view>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/system/child_process.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/policy/kit/allowed_python.h"

namespace kvloupe::job {

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

namespace {
/// "kvloupe-capture: what is wrong" without the name.
std::string without_name(const std::string& line) {
  for (const std::string_view name : {"kvloupe-capture: ", "kvloupe: "})
    if (line.starts_with(name)) return line.substr(name.size());
  return line;
}
}  // namespace

std::string own_program(const std::string& named, const char* program) {
  std::string path = named.empty() ? find_program(program) : named;
  if (path.empty()) {
    throw WorkError(
        std::string(program) +
        " was not found beside this program or in $PATH; kvloupe-capture is built with libtorch");
  }
  return path;
}

void run_own_program(const std::vector<std::string>& words, Progress& progress,
                     const std::function<void(const std::string&)>& on_line) {
  // The child trusts its command line, which may hold a policy from a session.
  for (const std::string& word : words) {
    for (const std::string& file : python_files_in(word)) {
      if (!python_is_allowed(file)) {
        throw FileError(
            file,
            "is Python code and runs only if you allow it: start kvloupe with --plugin " + file);
      }
    }
  }
  std::vector<std::string> all = words;
  for (const LoadedPlugin& plugin : loaded_plugins()) {
    all.insert(all.end(), {"--plugin", plugin.file});
  }
  const ChildResult result = run_child(all, progress, on_line);
  if (result.exit_code == 0) return;
  const std::string name = std::filesystem::path(words.front()).filename().string();
  const std::string why = without_name(result.last_error);
  if (!why.empty()) throw WorkError(why);
  throw WorkError(name + " ended " +
                  (result.signal != 0 ? "by signal " + std::to_string(result.signal)
                                      : "with code " + std::to_string(result.exit_code)));
}

}  // namespace kvloupe::job

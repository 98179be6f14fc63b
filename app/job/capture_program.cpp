#include "app/job/capture_program.h"

#include "analysis/child_process.h"
#include "analysis/error.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/policy/kit/allowed_python.h"

namespace kvloupe::job {

namespace {
constexpr const char* kProgram = "kvloupe-capture";

/// "kvloupe-capture: what is wrong" without the name.
std::string without_name(const std::string& line) {
  const std::string prefix = std::string(kProgram) + ": ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}
}  // namespace

std::string capture_program(const std::string& named) {
  std::string program = named.empty() ? find_program(kProgram) : named;
  if (program.empty()) {
    throw WorkError(
        "kvloupe-capture was not found beside kvloupe or in $PATH; build it with libtorch");
  }
  return program;
}

void run_capture_child(const std::vector<std::string>& words, Progress& progress,
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
  const std::string why = without_name(result.last_error);
  if (!why.empty()) throw WorkError(why);
  throw WorkError("kvloupe-capture ended " +
                  (result.signal != 0 ? "by signal " + std::to_string(result.signal)
                                      : "with code " + std::to_string(result.exit_code)));
}

}  // namespace kvloupe::job

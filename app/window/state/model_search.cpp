#include "app/window/state/model_search.h"

#include <algorithm>
#include <filesystem>

#include "analysis/trace/model_fingerprint.h"
#include "analysis/trace/model_place.h"
#include "app/window/state/demo_model.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

std::vector<std::string> offered_models(const KnownModels& known, const std::string& fingerprint,
                                        const std::string& last) {
  std::vector<std::string> folders;
  const auto offer = [&](const std::string& folder) {
    if (holds_model(folder) && std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(folder);
  };
  for (const std::string& folder : known.folders_of(fingerprint)) offer(folder);
  for (const std::string& folder : known.folders()) offer(folder);
  if (!last.empty()) offer(last);
  if (const std::string demo = demo_model_folder(); !demo.empty()) offer(demo);
  return folders;
}

ModelFound find_model_of(const std::string& trace, const KnownModels& known,
                         const std::string& last, Progress& progress) {
  ModelFound found;
  found.fingerprint = stored_model_fingerprint(trace);
  if (found.fingerprint.empty()) return found;
  for (const std::string& folder : offered_models(known, found.fingerprint, last)) {
    progress.check();
    if (model_fingerprint(folder, progress) != found.fingerprint) continue;
    found.folder = folder;
    break;
  }
  return found;
}

std::string model_title(const std::string& folder) {
  const bool is_demo = folder == demo_model_folder();
  return fs::path(folder).filename().string() + (is_demo ? " (comes with kvloupe)" : "");
}

}  // namespace kvloupe::window

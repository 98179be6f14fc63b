#include "app/window/state/known_models.h"

#include <algorithm>
#include <system_error>

#include "analysis/trace/model_files.h"
#include "app/window/state/jobs.h"
#include "app/window/state/recent_files.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kMostModels = 24;
constexpr std::uintmax_t kMostBytes = 1 << 18;
}  // namespace

fs::path known_models_path() {
  const fs::path beside = recent_files_path();
  return beside.empty() ? fs::path() : beside.parent_path() / "models";
}

KnownModels::KnownModels(fs::path list) : list_(std::move(list)) {
  for (const std::string& line : read_lines(list_, kMostBytes)) {
    if (entries_.size() == kMostModels) break;
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    Entry entry{line.substr(0, space), line.substr(space + 1)};
    if (is_model_fingerprint(entry.fingerprint) && is_listed_path(entry.folder))
      entries_.push_back(std::move(entry));
  }
}

void KnownModels::add(const std::string& fingerprint, const fs::path& folder) {
  std::error_code error;
  fs::path whole = fs::absolute(folder, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
  const std::string name = whole.string();
  if (error || !is_model_fingerprint(fingerprint) || !is_listed_path(name)) return;
  const auto same = [&](const Entry& e) { return e.folder == name; };
  if (!entries_.empty() && same(entries_.front()) && entries_.front().fingerprint == fingerprint)
    return;
  std::erase_if(entries_, same);  // a folder holds one model at a time
  entries_.insert(entries_.begin(), {fingerprint, name});
  if (entries_.size() > kMostModels) entries_.resize(kMostModels);
  std::vector<std::string> lines;
  for (const Entry& each : entries_) lines.push_back(each.fingerprint + ' ' + each.folder);
  write_lines(list_, lines);
}

std::vector<std::string> KnownModels::folders_of(const std::string& fingerprint) const {
  std::vector<std::string> found;
  for (const Entry& entry : entries_) {
    if ((fingerprint.empty() || entry.fingerprint == fingerprint) && holds_model(entry.folder))
      found.push_back(entry.folder);
  }
  return found;
}

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

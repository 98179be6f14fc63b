#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"

namespace kvloupe::window {

/// The path of the stored list, beside that of recent files; empty if neither has a place.
std::filesystem::path known_models_path();

/// Which folder held which model when it last made a trace, newest first; one line each in the
/// file, with the model's fingerprint and the folder's absolute path. Stays on this machine: a
/// trace that is passed on names no folder. A missing or broken list counts as empty; one that
/// cannot be written is kept in memory only.
class KnownModels {
 public:
  explicit KnownModels(std::filesystem::path list);
  /// Puts a folder at the top and writes the list. Ignores a text that is not a fingerprint.
  void add(const std::string& fingerprint, const std::filesystem::path& folder);
  /// Folders that still contain a config.json.
  std::vector<std::string> folders() const { return folders_of({}); }
  /// Those of them that held the model of this fingerprint; empty: of any.
  std::vector<std::string> folders_of(const std::string& fingerprint) const;

 private:
  struct Entry {
    std::string fingerprint, folder;
  };
  std::filesystem::path list_;
  std::vector<Entry> entries_;
};

/// Folders and GGUF files to offer when a model is needed, each once: first those that held the
/// model of this fingerprint (empty: not known), then the others that made traces, newest first,
/// then `last` (the folder of the last capture, or empty), and the demo model.
std::vector<std::string> offered_models(const KnownModels& known, const std::string& fingerprint,
                                        const std::string& last);

struct ModelFound {
  std::string fingerprint;  // empty: the trace does not say which model made it
  std::string folder;       // empty: none of the folders contains it
};

/// The first of the offered folders that now contains the model that made a trace. Takes as long as
/// reading the models: for background jobs.
ModelFound find_model_of(const std::string& trace, const KnownModels& known,
                         const std::string& last, Progress& progress);

/// The title of a folder in a list: its name, and whether it comes with kvloupe.
std::string model_title(const std::string& folder);

}  // namespace kvloupe::window

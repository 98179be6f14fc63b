#pragma once

#include <string>
#include <vector>

#include "analysis/progress.h"
#include "app/window/state/known_models.h"

namespace kvloupe::window {

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

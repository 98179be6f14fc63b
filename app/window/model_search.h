#pragma once

#include <string>
#include <vector>

#include "analysis/progress.h"
#include "app/window/known_models.h"

namespace kvloupe::window {

/// Folders to offer where a model is asked for, each once: those that held the model of this
/// fingerprint (empty: not known) first, then the others that made traces, newest first, `last`
/// (the folder of the last capture, or empty), and the demo model.
std::vector<std::string> offered_models(const KnownModels& known, const std::string& fingerprint,
                                        const std::string& last);

struct ModelFound {
  std::string fingerprint;  // empty: the trace does not say which model made it
  std::string folder;       // empty: none of those looked in holds it
};

/// The first of the offered folders that now holds the model that made a trace. Takes as long as
/// reading the models does: for background jobs.
ModelFound find_model_of(const std::string& trace, const KnownModels& known,
                         const std::string& last, Progress& progress);

/// What a list shows of a folder: its name, and whether it comes with kvloupe.
std::string model_title(const std::string& folder);

}  // namespace kvloupe::window

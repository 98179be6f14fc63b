#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace kvloupe::train {

/// Measures a model folder on newly generated text and hands over the report line by line: sinks,
/// their values and picture, needle accuracy, the loss without token 0, whether policies keep the
/// entries that the reading heads need, and the seconds that a capture takes. Throws FileError for
/// the folder, WorkError.
void report(const std::filesystem::path& model_folder,
            const std::function<void(const std::string&)>& line);

}  // namespace kvloupe::train

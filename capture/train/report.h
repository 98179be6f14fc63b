#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace kvloupe::train {

/// Measures a model folder on fresh generated text and hands over the report line by line: sinks,
/// their values and picture, needle accuracy, the loss without token 0, and whether policies keep
/// what the reading heads need, and the seconds a capture takes. Throws FileError for the folder,
/// WorkError.
void report(const std::filesystem::path& model_folder,
            const std::function<void(const std::string&)>& line);

}  // namespace kvloupe::train

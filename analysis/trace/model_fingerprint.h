#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "analysis/progress.h"

namespace kvloupe {

/// What a model is known by wherever its folder lies: "v1:" and the 64 hexadecimal digits of a
/// SHA-256 over config.json and the files of weights (docs/trace-format.md says over which bytes).
/// Tokenizers do not count, nor does the folder's name. A file of weights up to 64 MiB counts with
/// every byte; of a larger one the header, 4 KiB at each multiple of 4 MiB, and the last 4 KiB, so
/// that a model of 16 GB takes a fraction of a second.
///
/// Empty where the folder holds no config.json or no weights that can be read: who loads the model
/// says what is wrong. Throws Cancelled through progress.
std::string model_fingerprint(const std::filesystem::path& folder, Progress& progress);

/// What a trace says was the fingerprint of the model that made it. Empty where it says nothing, or
/// nothing that could be compared: a text of a later version, or made up. Throws FileError: a file
/// that cannot be opened, or is damaged there. Only what asks for a model needs it, so it is no
/// part of ModelInfo.
std::string stored_model_fingerprint(const std::filesystem::path& trace);

/// A text that model_fingerprint() could have returned. Others (of later versions, or made up)
/// cannot be compared with it.
bool is_model_fingerprint(std::string_view text);

}  // namespace kvloupe

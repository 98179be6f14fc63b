#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/base/core/progress.h"

namespace kvloupe {

/// Whether a model is here: a folder in the layout of Hugging Face (it has a config.json), or a
/// GGUF file. Looks at the first bytes of a file, not at its name; never waits for a pipe.
bool holds_model(const std::filesystem::path& place);

/// Whether this is a regular file that begins as a GGUF file does.
bool is_gguf_file(const std::filesystem::path& place);

/// The files that a GGUF model consists of: the file itself; where its name ends with
/// -00001-of-0000N.gguf, its N parts in order, whether or not they are there. Empty where the name
/// is that of a part other than the first, or of more than 99 999.
std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& first);

/// Identifies a model, wherever its folder or GGUF file is: "v1:" and the 64 hexadecimal digits of
/// a SHA-256 over config.json and the files of weights (docs/trace-format.md says over which
/// bytes). A GGUF file has another one than the folder that it was made from, and than each other
/// quantisation. Tokenizers, and the names of folders and GGUF files, do not count. A file of
/// weights up to 64 MiB counts with every byte, a larger one with its header (a GGUF file: its
/// first MiB), 4 KiB at each multiple of 4 MiB, and the last 4 KiB; so a model of 16 GB takes a
/// fraction of a second.
///
/// Empty if there is neither a folder with config.json and readable weights nor a GGUF file; the
/// code that loads the model reports the problem. Throws Cancelled through progress.
std::string model_fingerprint(const std::filesystem::path& folder, Progress& progress);

/// The fingerprint of the model that made a trace, as the trace says. Empty if the trace has none,
/// or one that cannot be compared (of a later version, or invalid). Throws FileError: a file that
/// cannot be opened, or is damaged there. Only code that looks for a model needs it, so it is not a
/// part of ModelInfo.
std::string stored_model_fingerprint(const std::filesystem::path& trace);

/// How a trace's prompt was written as messages, as the trace says; empty: it was not.
std::string stored_chat(const std::filesystem::path& trace);

/// Whether model_fingerprint() could have returned this text. Other texts (of later versions, or
/// invalid) cannot be compared with it.
bool is_model_fingerprint(std::string_view text);

}  // namespace kvloupe

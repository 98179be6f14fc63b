#pragma once

#include <filesystem>
#include <vector>

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

}  // namespace kvloupe

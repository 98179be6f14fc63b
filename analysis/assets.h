#pragma once

#include <filesystem>
#include <string>

namespace kvloupe {

/// The folder of the files that come with the program, whether or not it exists.
std::filesystem::path assets_folder();

/// A file or folder that comes with the program, by its name below assets/, such as "lessons",
/// "demo-model" or "prompts/needle.txt". An installed program looks in share/kvloupe of its prefix,
/// a build folder in the source. Throws FileError if the file does not exist.
std::filesystem::path find_asset(const std::string& name);

}  // namespace kvloupe

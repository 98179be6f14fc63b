#pragma once

#include <filesystem>
#include <string>

namespace kvloupe::job {

/// A file or folder that comes with the program, by its name below assets/, such as "lessons",
/// "demo-model" or "prompts/needle.txt": where the program is installed in share/kvloupe of the
/// same prefix, in a build folder in the source. Throws FileError where it is not there.
std::filesystem::path find_asset(const std::string& name);

}  // namespace kvloupe::job

#pragma once

#include <filesystem>

namespace kvloupe::demo {

/// The folder of the demo model, its prompts and the lessons: ../share/kvloupe of the program's
/// own, where it is installed, else the one of the source it was built from. Throws WorkError where
/// neither is there.
std::filesystem::path assets_folder();

}  // namespace kvloupe::demo

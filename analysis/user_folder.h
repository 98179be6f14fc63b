#pragma once

#include <filesystem>

namespace kvloupe {

/// The user's folder for kvloupe's files of one kind (XDG base directories): $VARIABLE/kvloupe
/// where that is an absolute path, else ~/IN_HOME/kvloupe; empty where neither is known.
std::filesystem::path user_folder(const char* variable, const char* in_home);

}  // namespace kvloupe

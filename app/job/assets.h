#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/assets.h"
#include "analysis/progress.h"

namespace kvloupe::job {

using kvloupe::assets_folder;
using kvloupe::find_asset;

/// The path of `program`: `named`, where that is not empty, else beside this program, else in
/// $PATH. Throws WorkError where it is not found.
std::string own_program(const std::string& named, const char* program = "kvloupe-capture");

/// Runs it to its end, with the plugins of this program; `on_line` gets the lines of its standard
/// output. Throws WorkError with the program's own last line if it fails; Cancelled through
/// progress.
void run_own_program(const std::vector<std::string>& words, Progress& progress,
                     const std::function<void(const std::string&)>& on_line);

}  // namespace kvloupe::job

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"

namespace kvloupe::job {

/// The folder of the files that come with the program, whether or not it exists.
std::filesystem::path assets_folder();

/// A file or folder that comes with the program, by its name below assets/, such as "lessons",
/// "demo-model" or "prompts/needle.txt". An installed program looks in share/kvloupe of its prefix,
/// a build folder in the source. Throws FileError if the file does not exist.
std::filesystem::path find_asset(const std::string& name);

/// The path of `program`: `named`, where that is not empty, else beside this program, else in
/// $PATH. Throws WorkError where it is not found.
std::string own_program(const std::string& named, const char* program = "kvloupe-capture");

/// Runs it to its end, with the plugins of this program; `on_line` gets the lines of its standard
/// output. Throws WorkError with the program's own last line if it fails; Cancelled through
/// progress.
void run_own_program(const std::vector<std::string>& words, Progress& progress,
                     const std::function<void(const std::string&)>& on_line);

}  // namespace kvloupe::job

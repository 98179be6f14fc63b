#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

// A Python file that a policy names is code. A session, study, lesson or trace that somebody sent
// could name one, so only files that a person named for this program run.

/// From now on python() may run this file. Call it at the start of a program, on one thread.
void allow_python(const std::string& file);
/// Whether python() may run the file. Files are compared by path, after links are followed.
bool python_is_allowed(const std::string& file);

/// The files of all parts python("file.py:name", ...) in a text, such as a word of the command
/// line.
std::vector<std::string> python_files_in(std::string_view text);

}  // namespace kvloupe

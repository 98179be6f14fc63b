#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe {

/// A policy library that was loaded.
struct LoadedPlugin {
  std::string file;  // the whole path
  std::string name;
  std::vector<std::string> scores;
};

/// Loads a shared library with scores (docs/plugins.md) and adds them to the catalogue; a library
/// that is loaded already is left alone. Its code runs with the rights of this program. Call it at
/// the start of a program, on one thread, before anything reads the catalogue of policies.
///
/// A file that ends in .py is not loaded: python() is allowed to run it (allowed_python.h).
///
/// Throws FileError, and adds nothing, where the file is missing or not a shared library of this
/// machine, lacks the symbol, is built for another interface, registers a name that is taken or not
/// valid, or fails while it registers.
void load_plugin(const std::filesystem::path& file);

/// In the order in which they were loaded.
const std::vector<LoadedPlugin>& loaded_plugins();

}  // namespace kvloupe

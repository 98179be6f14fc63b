#pragma once
// The option --plugin of all programs. Header only, as analysis/command_line.h.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "analysis/policy/kit/allowed_python.h"

namespace kvloupe {

/// Adds --plugin FILE, repeatable, to a program and to each verb that it has so far. The files that
/// the command line names are in the result once it has been parsed.
inline std::shared_ptr<std::vector<std::string>> add_plugin_option(CLI::App& program) {
  auto files = std::make_shared<std::vector<std::string>>();
  std::vector<CLI::App*> takers = program.get_subcommands([](CLI::App*) { return true; });
  takers.push_back(&program);
  for (CLI::App* taker : takers) {
    taker
        ->add_option_function<std::vector<std::string>>(
            "--plugin",
            [files](const std::vector<std::string>& named) {
              files->insert(files->end(), named.begin(), named.end());
            },
            "Load policies from this shared library (docs/plugins.md); repeatable")
        ->option_text("FILE")
        ->allow_extra_args(false);
  }
  return files;
}

/// Lets python() run the files that policies on the command line name: a person typed these.
inline void allow_python_of(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const std::string& file : python_files_in(argv[i])) allow_python(file);
  }
}

}  // namespace kvloupe

#pragma once
// Options that name a file to write: what starts with "--" is an option that the program does not
// have, or one whose value was forgotten, and not a file.

#include <CLI/CLI.hpp>
#include <string>

namespace kvloupe {

/// Lets each --output of the program's verbs, and of their own verbs, refuse such a name.
inline void refuse_options_as_outputs(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    refuse_options_as_outputs(*verb);
    if (CLI::Option* output = verb->get_option_no_throw("--output"))
      output->check(
          [](const std::string& name) {
            return name.rfind("--", 0) != 0
                       ? std::string()
                       : "'" + name + "' reads like an option; for a file of this name write ./" +
                             name;
          },
          "");
  }
}

}  // namespace kvloupe

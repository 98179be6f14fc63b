#pragma once
// What the command lines of both programs have in common. Header only, as
// analysis/base/cli/command_line.h.

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/cli/command_line.h"
#include "analysis/base/cli/command_pages.h"
#include "analysis/base/core/error.h"
#include "analysis/base/system/blas.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/policy/kit/allowed_python.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "version.h"

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

/// Lets each --output of the program's verbs refuse what starts with "--": an option that the
/// program does not have, or one whose value was forgotten, and not a file.
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

/// The names of policies, for completion in a shell.
inline KnownWords known_policies() {
  KnownWords words;
  for (const PolicyEntry& entry : policy_catalog()) words["--policy"].push_back(entry.name);
  words["--policies"] = words["--policy"];
  return words;
}

/// A verb adds its sub-command and options to a program and stores its work in an action, which
/// runs after the command line has been parsed. The action returns the exit code.
using Action = std::function<int()>;

/// A verb with options of its own, which `run` gets once the command line has been parsed.
template <typename Options>
struct Verb {
  CLI::App* verb;
  std::shared_ptr<Options> options = std::make_shared<Options>();

  template <typename Run>
  Verb(CLI::App& app, Action& action, const char* name, const char* help, Run run)
      : verb(app.add_subcommand(name, help)) {
    verb->callback(
        [&action, run, options = options] { action = [run, options] { return run(*options); }; });
  }
};

/// The whole program: parses, runs, reports. Returns the exit code. `commit`: of the source it was
/// built from; `words`: see add_page_option().
inline int run_program(CLI::App& app, int argc, char** argv, const char* commit,
                       std::function<KnownWords()> words,
                       const std::function<void(Action& action)>& add_verbs) {
  app.set_version_flag("--version", app.get_name() + " " KVLOUPE_VERSION " (" +
                                        std::string(commit) +
                                        ")\nmatrix products: " + blas_kernels());
  add_page_option(app, KVLOUPE_VERSION, std::move(words));
  Action action;
  add_verbs(action);
  refuse_options_as_outputs(app);
  const auto plugins = add_plugin_option(app);
  try {
    app.parse(argc, argv);
    for (const std::string& file : *plugins) load_plugin(file);
    allow_python_of(argc, argv);
    return action ? action() : 0;
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  } catch (...) {
    return report_failure(app.get_name());
  }
}

}  // namespace kvloupe

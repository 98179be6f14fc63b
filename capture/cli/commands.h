#pragma once
// One function per verb of `kvloupe-capture`, one file each, listed once in commands.cpp.

#include <CLI/CLI.hpp>
#include <functional>

namespace kvloupe::capture_cli {

/// A verb adds its sub-command and options to `app` and stores its work in `action`, which runs
/// after the command line has been parsed. The action returns the exit code.
using Action = std::function<int()>;
void add_run(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_rescue(CLI::App& app, Action& action);
void add_study(CLI::App& app, Action& action);
void add_tokens(CLI::App& app, Action& action);

/// The whole program: parses, runs, reports. Returns the exit code. `commit`: of the source it was
/// built from, for --version.
int run(int argc, char** argv, const char* commit = "unknown");

}  // namespace kvloupe::capture_cli

#pragma once
// One function per verb of `kvloupe`, one file each, listed once in commands.cpp.

#include <CLI/CLI.hpp>
#include <functional>

namespace kvloupe::cli {

/// A verb adds its sub-command and options to `app` and stores its work in `action`, which main
/// runs after the command line has been parsed. The action returns the exit code.
using Action = std::function<int()>;
void add_info(CLI::App& app, Action& action);
void add_policies(CLI::App& app, Action& action);
void add_measures(CLI::App& app, Action& action);
void add_replay(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);
void add_study(CLI::App& app, Action& action);
void add_drift(CLI::App& app, Action& action);
void add_follow(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_gallery(CLI::App& app, Action& action);
void add_lesson(CLI::App& app, Action& action);
void add_demo(CLI::App& app, Action& action);
void add_window(CLI::App& app, Action& action);  // no verb: the window

/// The whole program: parses, runs, reports. Returns the exit code. `commit`: of the source it was
/// built from, for --version.
int run(int argc, char** argv, const char* commit = "unknown");

}  // namespace kvloupe::cli

#pragma once
// The verbs of `kvloupe-capture`, one file and one line each, in the order of --help. A line
// VERB(name) declares `name_verb::add`, which the file of that name defines.

#include <CLI/CLI.hpp>
#include <functional>

namespace kvloupe::capture_cli {

/// A verb adds its sub-command and options to `app` and stores its work in `action`, which runs
/// after the command line has been parsed. The action returns the exit code.
using Action = std::function<int()>;
// clang-format off
#define KVLOUPE_CAPTURE_VERBS(VERB) \
  VERB(run) \
  VERB(eval) \
  VERB(rescue) \
  VERB(study) \
  VERB(tokens) \
  VERB(pack)
// clang-format on
#define KVLOUPE_DECLARE_VERB(name)           \
  namespace name##_verb {                    \
    void add(CLI::App& app, Action& action); \
  }
KVLOUPE_CAPTURE_VERBS(KVLOUPE_DECLARE_VERB)
#undef KVLOUPE_DECLARE_VERB

/// The whole program: parses, runs, reports. Returns the exit code. `commit`: of the source it was
/// built from, for --version.
int run(int argc, char** argv, const char* commit = "unknown");

}  // namespace kvloupe::capture_cli

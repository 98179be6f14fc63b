#pragma once
// The verbs of `kvloupe`, one file and one line each, in the order of --help. A line VERB(name)
// declares `name_verb::add`, which the file of that name defines. `window` is not a word to type: a
// verb's own action replaces it.

#include <CLI/CLI.hpp>
#include <functional>

namespace kvloupe::cli {

/// A verb adds its sub-command and options to `app` and stores its work in `action`, which main
/// runs after the command line has been parsed. The action returns the exit code.
using Action = std::function<int()>;
// clang-format off
#define KVLOUPE_VERBS(VERB) \
  VERB(window) \
  VERB(demo) \
  VERB(info) \
  VERB(policies) \
  VERB(measures) \
  VERB(replay) \
  VERB(sweep) \
  VERB(study) \
  VERB(advise) \
  VERB(report) \
  VERB(drift) \
  VERB(follow) \
  VERB(export) \
  VERB(export_sets) \
  VERB(gallery) \
  VERB(lesson) \
  VERB(cache)
// clang-format on
#define KVLOUPE_DECLARE_VERB(name)           \
  namespace name##_verb {                    \
    void add(CLI::App& app, Action& action); \
  }
KVLOUPE_VERBS(KVLOUPE_DECLARE_VERB)
#undef KVLOUPE_DECLARE_VERB

/// The whole program: parses, runs, reports. Returns the exit code. `commit`: of the source it was
/// built from, for --version.
int run(int argc, char** argv, const char* commit = "unknown");

}  // namespace kvloupe::cli

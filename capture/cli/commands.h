#pragma once
// The verbs of `kvloupe-capture`, one file and one line each, in the order of --help. A line
// VERB(name) declares `name_verb::add`, which the file of that name defines.

#include "analysis/plugin/program.h"

namespace kvloupe::capture_cli {

// clang-format off
#define KVLOUPE_CAPTURE_VERBS(VERB) \
  VERB(run) \
  VERB(eval) \
  VERB(rescue) \
  VERB(study) \
  VERB(tasks) \
  VERB(tokens) \
  VERB(pack)
// clang-format on
#define KVLOUPE_DECLARE_VERB(name)           \
  namespace name##_verb {                    \
    void add(CLI::App& app, Action& action); \
  }
KVLOUPE_CAPTURE_VERBS(KVLOUPE_DECLARE_VERB)
#undef KVLOUPE_DECLARE_VERB

/// run_program() with these verbs.
int run(int argc, char** argv, const char* commit = "unknown");

}  // namespace kvloupe::capture_cli

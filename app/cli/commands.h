#pragma once
// The verbs of `kvloupe`, one file and one line each, in the order of --help. A line VERB(name)
// declares `name_verb::add`, which the file of that name defines. `window` is not a word to type: a
// verb's own action replaces it.

#include "analysis/plugin/program.h"

namespace kvloupe::cli {

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
  VERB(page) \
  VERB(lesson) \
  VERB(cache)
// clang-format on
#define KVLOUPE_DECLARE_VERB(name)           \
  namespace name##_verb {                    \
    void add(CLI::App& app, Action& action); \
  }
KVLOUPE_VERBS(KVLOUPE_DECLARE_VERB)
#undef KVLOUPE_DECLARE_VERB

/// run_program() with these verbs.
int run(int argc, char** argv, const char* commit = "unknown");

}  // namespace kvloupe::cli

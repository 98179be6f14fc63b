#include "capture/cli/commands.h"

namespace kvloupe::capture_cli {

int run(int argc, char** argv, const char* commit) {
  CLI::App app{"kvloupe-capture: runs a language model and writes a trace for kvloupe",
               "kvloupe-capture"};
  app.require_subcommand(1);
  return run_program(app, argc, argv, commit, known_policies, [&](Action& action) {
#define KVLOUPE_ADD_VERB(name) name##_verb::add(app, action);
    KVLOUPE_CAPTURE_VERBS(KVLOUPE_ADD_VERB)
#undef KVLOUPE_ADD_VERB
  });
}

}  // namespace kvloupe::capture_cli

#include "capture/cli/commands.h"

#include "analysis/command_line.h"
#include "analysis/command_pages.h"
#include "analysis/failure.h"
#include "analysis/output_option.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/plugin/plugin_option.h"
#include "analysis/policy/policy_catalog.h"
#include "version.h"

namespace kvloupe::capture_cli {

namespace {
/// The names that the catalogue knows, for completion in a shell.
KnownWords known_words() {
  KnownWords words;
  for (const PolicyEntry& entry : policy_catalog()) words["--policy"].push_back(entry.name);
  words["--policies"] = words["--policy"];
  return words;
}
}  // namespace

int run(int argc, char** argv, const char* commit) {
  CLI::App app{"kvloupe-capture: runs a language model and writes a trace for kvloupe",
               "kvloupe-capture"};
  app.set_version_flag("--version",
                       std::string("kvloupe-capture " KVLOUPE_VERSION " (") + commit + ")");
  add_page_option(app, KVLOUPE_VERSION, known_words);
  app.require_subcommand(1);
  Action action;
#define KVLOUPE_ADD_VERB(name) name##_verb::add(app, action);
  KVLOUPE_CAPTURE_VERBS(KVLOUPE_ADD_VERB)
#undef KVLOUPE_ADD_VERB
  refuse_options_as_outputs(app);
  const auto plugins = add_plugin_option(app);
  try {
    app.parse(argc, argv);
    for (const std::string& file : *plugins) load_plugin(file);
    allow_python_of(argc, argv);
    return action();
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  } catch (...) {
    return report_failure("kvloupe-capture");
  }
}

}  // namespace kvloupe::capture_cli

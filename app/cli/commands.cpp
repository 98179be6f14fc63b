#include "app/cli/commands.h"

#include "analysis/command_line.h"
#include "analysis/command_pages.h"
#include "analysis/failure.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/output_option.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/plugin/plugin_option.h"
#include "analysis/policy/policy_catalog.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/lesson/lesson.h"
#include "version.h"

namespace kvloupe::cli {

namespace {
/// The names that the catalogues know, for completion in a shell.
KnownWords known_words() {
  KnownWords words;
  for (const PolicyEntry& entry : policy_catalog()) words["--policy"].push_back(entry.name);
  words["--policies"] = words["--policy-b"] = words["--policy"];
  for (const Measure& measure : all_measures()) words["--measures"].push_back(measure.info->name);
  for (const figure::FigureInfo& figure : figure::figure_catalog())
    words["--figure"].push_back(figure.name);
  for (const lesson::Lesson& lesson : lesson::find_lessons())
    words["lesson"].push_back(lesson.name);
  return words;
}
}  // namespace

int run(int argc, char** argv, const char* commit) {
  CLI::App app{"kvloupe: see what a KV-cache policy does, head by head", "kvloupe"};
  app.set_version_flag("--version", std::string("kvloupe " KVLOUPE_VERSION " (") + commit + ")");
  add_page_option(app, KVLOUPE_VERSION, known_words);
  app.require_subcommand(0, 1);
  Action action;
#define KVLOUPE_ADD_VERB(name) name##_verb::add(app, action);
  KVLOUPE_VERBS(KVLOUPE_ADD_VERB)
#undef KVLOUPE_ADD_VERB
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
    return report_failure("kvloupe");
  }
}

}  // namespace kvloupe::cli

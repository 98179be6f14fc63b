#include "app/cli/commands.h"

#include "analysis/command_line.h"
#include "analysis/failure.h"
#include "analysis/plugin/load_plugin.h"
#include "analysis/plugin/plugin_option.h"
#include "version.h"

namespace kvloupe::cli {

int run(int argc, char** argv) {
  CLI::App app{"kvloupe: see what a KV-cache policy does, head by head", "kvloupe"};
  app.set_version_flag("--version", "kvloupe " KVLOUPE_VERSION);
  app.require_subcommand(0, 1);
  Action action;
  add_window(app, action);  // no verb; a verb's own action replaces it
  add_demo(app, action);
  add_info(app, action);
  add_policies(app, action);
  add_measures(app, action);
  add_replay(app, action);
  add_sweep(app, action);
  add_study(app, action);
  add_drift(app, action);
  add_follow(app, action);
  add_export(app, action);
  add_gallery(app, action);
  add_lesson(app, action);
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

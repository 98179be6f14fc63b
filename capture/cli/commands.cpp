#include "capture/cli/commands.h"

#include "analysis/failure.h"
#include "version.h"

namespace kvloupe::capture_cli {

int run(int argc, char** argv) {
  CLI::App app{"kvloupe-capture: runs a language model and writes a trace for kvloupe",
               "kvloupe-capture"};
  app.set_version_flag("--version", "kvloupe-capture " KVLOUPE_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "kvloupe-capture: " + std::string(error.what()) + "; see kvloupe-capture --help\n";
  });
  Action action;
  add_run(app, action);
  try {
    app.parse(argc, argv);
    return action();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (...) {
    return report_failure("kvloupe-capture");
  }
}

}  // namespace kvloupe::capture_cli

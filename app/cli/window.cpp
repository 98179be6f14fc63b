#include <memory>

#include "app/cli/commands.h"
#include "app/cli/shared_options.h"

namespace kvloupe::cli::window_verb {

void add(CLI::App& app, Action& action) {
  const auto words = std::make_shared<WindowWords>();
  app.add_option(
      "INPUT", words->options.inputs,
      "Traces to open in the window (the first is shown; a closed-loop run can be "
      "compared with its full run), or results of kvloupe-capture eval or rescue, or of a study");
  app.add_option("--session", words->options.session, "Session file to restore");
  add_window_options(app, *words);
  action = [words] {
    load_plugins_of_preferences(*words);
    return window::run_window(options_of(*words));
  };
}

}  // namespace kvloupe::cli::window_verb

// kvloupe demo: the window on the demo model's trace, which is captured if it is missing.

#include <memory>

#include "app/cli/commands.h"
#include "app/cli/shared_options.h"
#include "app/demo/demo_trace.h"

namespace kvloupe::cli::demo_verb {

void add(CLI::App& app, Action& action) {
  CLI::App& verb =
      *app.add_subcommand("demo",
                          "Capture the built-in demo model on its prompt (about a second; kept in "
                          "your cache folder) and open the trace in the window");
  const auto words = std::make_shared<WindowWords>();
  add_window_options(verb, *words);
  verb.callback([words, &action] {
    action = [words] {
      load_plugins_of_preferences(*words);
      window::WindowOptions options = options_of(*words);
      Progress progress;
      demo::demo_trace({}, progress);  // what goes wrong is said here; the window finds it kept
      options.demo = true;
      return window::run_window(options);
    };
  });
}

}  // namespace kvloupe::cli::demo_verb

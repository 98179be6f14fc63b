#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "app/window/shell/window.h"

namespace kvloupe::cli {

/// The options of every verb that opens the window.
struct WindowWords {
  window::WindowOptions options;
  std::string size;  // WxH as typed; empty: the window's own
};

/// Adds them to a verb.
void add_window_options(CLI::App& app, WindowWords& words);

/// Loads the plugins of the preferences, for a window that stays open; their errors are printed on
/// standard error, and shown in the window. To be called before anything reads the catalogue of
/// policies.
void load_plugins_of_preferences(WindowWords& words);

/// Parses the size. Throws UsageError for a text that is not a size.
window::WindowOptions options_of(const WindowWords& words);

}  // namespace kvloupe::cli

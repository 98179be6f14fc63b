#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/window/window.h"

namespace kvloupe::cli {

/// What every verb that opens the window takes.
struct WindowWords {
  window::WindowOptions options;
  std::string size;  // WxH as typed; empty: the window's own
};

/// Adds them to a verb.
void add_window_options(CLI::App& app, WindowWords& words);

/// With the size read. Throws UsageError for what is not a size.
window::WindowOptions options_of(const WindowWords& words);

}  // namespace kvloupe::cli

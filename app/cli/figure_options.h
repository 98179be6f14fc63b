#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/document/figure_file.h"
#include "app/request/figure_request.h"

namespace kvloupe::cli {

/// The options `export` and `gallery` share. Policies and the budget are still texts: plugins are
/// loaded once the command line was read.
struct FigureOptions {
  std::string policy = "keydiff";
  std::string policy_b;
  std::string budget = "25%";
  /// All others. The policy follows when plugins are loaded: its default reads the catalogue.
  request::FigureSettings settings{.policy = {}};
  std::vector<std::string> choices;  // NAME=VALUE
  figure::FileOptions file;
};

/// Adds the options to a verb. A wrong value throws UsageError while the command line is read.
void add_figure_options(CLI::App& verb, FigureOptions& options);

/// The settings that the options give. Throws UsageError.
request::FigureSettings settings_of(const FigureOptions& options);

/// Fonts that are missing, one line each on stderr.
void warn_about_fonts(const figure::TextMetrics& fonts);

}  // namespace kvloupe::cli

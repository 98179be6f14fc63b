#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/document/figure_file.h"
#include "app/request/figure_request.h"

namespace kvloupe::cli {

/// The options `export` and `gallery` share, as typed.
struct FigureOptions {
  std::string policy = "keydiff";
  std::string policy_b;
  std::string budget = "25%";
  int block = 0;
  std::optional<Compression> compression;
  int layer = 0, head = 0, query_head = 0, step = 0, token = 0;
  CLI::Option *has_layer = nullptr, *has_head = nullptr, *has_query_head = nullptr,
              *has_step = nullptr, *has_token = nullptr;
  std::string tokens;
  std::string size;
  std::string theme = "light";
  std::string colours = "viridis";
  bool patterns = false, no_patterns = false;  // neither: as the theme has it
  bool caption = false;
  bool title = false;
  bool no_legend = false;
  double text = 8.0;
  std::string x, y, limits;          // FROM:TO
  std::vector<std::string> choices;  // NAME=VALUE
};

/// Adds the options to a verb.
void add_figure_options(CLI::App& verb, FigureOptions& options);

/// The settings that the options give. Both functions throw UsageError.
request::FigureSettings settings_of(const FigureOptions& options);
figure::FileOptions file_options_of(const FigureOptions& options);

/// Fonts that are missing, one line each on stderr.
void warn_about_fonts(const figure::TextMetrics& fonts);

}  // namespace kvloupe::cli

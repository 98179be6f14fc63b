#pragma once
// How every program reports a wrong command line. Header only: analysis itself has no options.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

namespace kvloupe {

/// --help and --version print and return 0. Any other error is one line on stderr that names the
/// verb whose --help to read, and exit code 2.
inline int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::string line = error.what();
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::string verb;
  for (const CLI::App* parsed : app.get_subcommands()) verb = " " + parsed->get_name();
  std::fprintf(stderr, "%s: %s; see %s%s --help\n", app.get_name().c_str(), line.c_str(),
               app.get_name().c_str(), verb.c_str());
  return 2;
}

}  // namespace kvloupe

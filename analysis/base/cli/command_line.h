#pragma once
// Shared by the command lines of all programs: the report of a wrong one, and some kinds of
// options. Header only: analysis itself has no options.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/text/text.h"
#include "analysis/base/text/typed_number.h"

namespace kvloupe {

/// --help and --version print and return 0. Any other error is one line on stderr that names the
/// verb whose --help to read, and exit code 2.
inline int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::string line = error.what();
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = in_lines(line);
  std::string verb;
  for (const CLI::App* parsed : app.get_subcommands()) verb = " " + parsed->get_name();
  std::fprintf(stderr, "%s: %s; see %s%s --help\n", app.get_name().c_str(), line.c_str(),
               app.get_name().c_str(), verb.c_str());
  return 2;
}

/// For an option that takes a block size: a number of tokens, or "all", which stands for `whole`.
inline CLI::Validator block_size(int whole) {
  return {[whole](std::string& text) -> std::string {
            const auto tokens = block_in(text, whole);
            if (!tokens) return no_block(text);
            text = std::to_string(*tokens);
            return {};
          },
          "TOKENS|all", "block size"};
}

/// An option that takes one of some words; without it the value stays as it is.
template <typename Value>
CLI::Option* add_word_option(CLI::App& verb, const char* name, std::optional<Value>& value,
                             const std::map<std::string, Value>& words, const std::string& help) {
  std::string all;
  std::vector<std::string> names;
  for (const auto& [word, meaning] : words) {
    all = word + (all.empty() ? "" : "|" + all);
    names.push_back(word);
  }
  return verb
      .add_option_function<std::string>(
          name, [&value, words](const std::string& word) { value = words.at(word); }, help)
      ->check(CLI::IsMember(names))
      ->option_text(all);
}

/// The same for a value that stands without the option; words in the order of the help.
template <typename Value>
CLI::Option* add_choice_option(CLI::App& verb, const char* name, Value& value,
                               const std::vector<std::pair<std::string, Value>>& words,
                               const std::string& help) {
  std::string all;
  for (const auto& [word, meaning] : words) all += (all.empty() ? "" : "|") + word;
  return verb.add_option(name, value, help)->transform(CLI::Transformer(words))->option_text(all);
}

}  // namespace kvloupe

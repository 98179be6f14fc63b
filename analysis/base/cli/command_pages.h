#pragma once
// The manual page of an installed program and the completion of its command line in two shells. All
// are made from the definitions of --help, so they cannot differ from it.

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// Words that a catalogue knows for an option ("--policy") or, without dashes, for a verb's
/// argument ("lesson"). Words that the option itself names, such as light or dark, are left out.
using KnownWords = std::map<std::string, std::vector<std::string>>;

/// A manual page of section 1, in the language of man(7), as UTF-8. Each verb is a part of it.
std::string manual_page(const CLI::App& program, std::string_view version);

/// A script that completes the program's command line in bash. An option without known words, and
/// an argument, are completed with file names.
std::string bash_completion(const CLI::App& program, const KnownWords& words);

/// The same as a file `_PROGRAM` for zsh.
std::string zsh_completion(const CLI::App& program, const KnownWords& words);

/// Adds the option --print-page man|bash|zsh, which --help does not show: the build calls it. It
/// prints one of the three and ends the program with 0; `words` is asked only then.
void add_page_option(CLI::App& program, std::string version, std::function<KnownWords()> words);

}  // namespace kvloupe

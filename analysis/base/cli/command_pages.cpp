#include "analysis/base/cli/command_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>
#include <utility>

namespace kvloupe {

namespace {

struct PageOption {
  std::vector<std::string> names;  // "-o", "--output"; of an argument its one name, "TRACE"
  std::string value;               // "TEXT", "light|dark"; empty: takes none
  std::string help;
  std::string unless_given;  // the value it has then
  bool required = false;
  bool many = false;
  std::vector<std::string> words;  // known values
};

/// A verb, or the program itself.
struct PageVerb {
  std::string name, help, footer;
  std::vector<PageOption> arguments, options;
};

/// "light|dark" names two words; "TOKENS|all" one, and a kind of value in capitals.
std::vector<std::string> words_of(const std::string& value) {
  std::vector<std::string> words;
  std::istringstream in(value);
  for (std::string word; std::getline(in, word, '|');) {
    if (word.size() < value.size() && std::any_of(word.begin(), word.end(), [](unsigned char c) {
          return std::islower(c) || std::isdigit(c);
        }))
      words.push_back(word);
  }
  return words;
}

PageOption read_option(const CLI::Option& option, const std::string& verb,
                       const KnownWords& known) {
  PageOption read;
  for (const std::string& name : option.get_snames()) read.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) read.names.push_back("--" + name);
  const bool argument = read.names.empty();
  if (argument) read.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) {
    read.value =
        option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
    // CLI11 writes a set of words as TEXT:{light,dark}.
    const std::size_t open = read.value.find('{');
    const std::size_t close = read.value.find('}');
    if (open != std::string::npos && close != std::string::npos && open < close) {
      read.value = read.value.substr(open + 1, close - open - 1);
      std::replace(read.value.begin(), read.value.end(), ',', '|');
    } else if (const std::size_t colon = read.value.find(':'); colon != std::string::npos) {
      read.value = read.value.substr(colon + 1);  // TEXT:TOKENS|all
    }
  }
  read.help = option.get_description();
  read.unless_given = option.get_default_str();
  read.required = option.get_required();
  read.many = option.get_items_expected_max() > 1 && option.get_allow_extra_args();
  read.words = words_of(read.value);
  const auto found = known.find(argument ? verb : read.names.back());
  if (found != known.end()) read.words = found->second;
  return read;
}

/// Adds an app's options; those of its groups of options, which are apps without a name, too.
void read_options(const CLI::App& app, const KnownWords& known, PageVerb& verb) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    PageOption read = read_option(*option, verb.name, known);
    (read.names.front().front() == '-' ? verb.options : verb.arguments).push_back(std::move(read));
  }
  for (const CLI::App* group :
       app.get_subcommands([](const CLI::App* one) { return one->get_name().empty(); }))
    read_options(*group, known, verb);
}

/// The program itself, then its verbs.
std::vector<PageVerb> read_program(const CLI::App& app, const KnownWords& known) {
  std::vector<const CLI::App*> apps = {&app};
  for (const CLI::App* verb :
       app.get_subcommands([](const CLI::App* one) { return !one->get_name().empty(); }))
    apps.push_back(verb);
  std::vector<PageVerb> verbs;
  for (const CLI::App* one : apps) {
    verbs.push_back({one->get_name(), one->get_description(), one->get_footer(), {}, {}});
    read_options(*one, known, verbs.back());
  }
  return verbs;
}

// ---- the manual page ----

/// For man(7): no letter of the text is a command of its language.
std::string roff(std::string_view text) {
  std::string out;
  char before = '\n';
  for (const char c : text) {
    if (before == '\n' && (c == '.' || c == '\'')) out += "\\&";
    before = c;
    if (c == '\\' || c == '-') out += '\\';
    out += c == '\\' ? 'e' : c;  // "\-" is a minus sign, which can be copied to a shell
  }
  return out;
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string roff_option(const PageOption& option, bool argument) {
  std::string names;
  for (const std::string& name : option.names) {
    if (!names.empty()) names += ", ";
    names += "\\fB" + roff(name) + "\\fR";
  }
  if (!argument && !option.value.empty()) names += " \\fI" + roff(option.value) + "\\fR";
  if (option.many) names += " ...";
  std::string help = option.help;
  if (!option.unless_given.empty() && !option.value.empty())
    help += fmt::format(" [{}]", option.unless_given);
  if (option.required) help += " (required)";
  return fmt::format(".TP\n{}\n{}\n", names, help.empty() ? "\\&" : roff(help));
}

std::string roff_verb(const PageVerb& verb) {
  std::string text;
  for (const PageOption& argument : verb.arguments) text += roff_option(argument, true);
  for (const PageOption& option : verb.options) text += roff_option(option, false);
  std::string footer = verb.footer;
  while (!footer.empty() && footer.back() == '\n') footer.pop_back();
  if (!footer.empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(footer));
  return text;
}

// ---- completion ----

/// One word of a shell, whatever the text holds.
std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// A name of a shell function.
std::string function_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return "_" + name;
}

/// The cases "verb:option" that know their words, and those that take any value.
std::string bash_values(const PageVerb& verb, const std::string& name) {
  std::string text;
  std::vector<std::string> free;
  for (const PageOption& option : verb.options) {
    if (option.value.empty()) continue;
    std::vector<std::string> cases;
    for (const std::string& form : option.names) cases.push_back(name + ":" + form);
    if (option.words.empty()) {
      free.insert(free.end(), cases.begin(), cases.end());
    } else {
      text += fmt::format("    {}) words={} ;;\n", fmt::join(cases, "|"),
                          shell_word(fmt::format("{}", fmt::join(option.words, " "))));
    }
  }
  if (!free.empty()) text += fmt::format("    {}) return ;;\n", fmt::join(free, "|"));
  return text;
}

/// The words of a verb's first argument that is known.
std::vector<std::string> argument_words(const PageVerb& verb) {
  for (const PageOption& argument : verb.arguments)
    if (!argument.words.empty()) return argument.words;
  return {};
}

/// The text of a specification for zsh's _arguments, in which : [ ] and \ have a meaning.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// A value is completed with its words, also in lists with commas or plus signs, else with file
/// names.
std::string zsh_action(const std::vector<std::string>& words) {
  if (words.empty()) return "_files";
  return fmt::format("{{compset -P \"*[+,]\"; compadd -S \"\" - {}}}", fmt::join(words, " "));
}

std::string zsh_arguments(const PageVerb& verb) {
  std::string text;
  for (const PageOption& option : verb.options) {
    for (const std::string& name : option.names) {
      std::string specification = name + "[" + zsh_text(option.help) + "]";
      if (!option.value.empty())
        specification += ":" + zsh_text(option.value) + ":" + zsh_action(option.words);
      text += " \\\n        " + shell_word(specification);
    }
  }
  return text;
}
}  // namespace

std::string manual_page(const CLI::App& app, std::string_view version) {
  const std::vector<PageVerb> verbs = read_program(app, {});
  const std::string& name = verbs.front().name;
  const std::string& help = verbs.front().help;
  const std::size_t colon = help.find(": ");
  std::string page = fmt::format(
      ".\\\" Written by {0} itself, from the definitions of its command line.\n"
      ".TH {1} 1 \"\" \"{0} {2}\" \"User Commands\"\n"
      ".SH NAME\n{3} \\- {4}\n"
      ".SH SYNOPSIS\n.B {3}\n",
      name, roff(capitals(name)), version, roff(name),
      roff(colon == std::string::npos ? help : help.substr(colon + 2)));
  std::string parts;
  for (const PageVerb& verb : verbs) {
    const bool itself = &verb == &verbs.front();
    if (!itself) page += fmt::format(".br\n.B {} {}\n", roff(name), roff(verb.name));
    for (const PageOption& argument : verb.arguments) {
      const std::string word =
          "\\fI" + roff(argument.names.front()) + "\\fR" + (argument.many ? " ..." : "");
      page += argument.required ? word + "\n" : "[" + word + "]\n";
    }
    page += "[\\fIoptions\\fR]\n";
    if (!itself) parts += fmt::format(".SS {}\n{}\n", roff(verb.name), roff(verb.help));
    parts += roff_verb(verb) + (itself ? ".SH VERBS\n" : "");
  }
  page += ".SH OPTIONS\n" + parts;
  page +=
      ".SH EXIT STATUS\n"
      ".TP\n.B 0\nThe work is done.\n"
      ".TP\n.B 1\nA file or folder is missing, damaged or cannot be written, or the work failed.\n"
      ".TP\n.B 2\nThe command line is wrong.\n"
      ".PP\nAn error is one line on standard error: what, where, what to do.\n"
      ".SH SEE ALSO\n"
      ".BR kvloupe (1),\n.BR kvloupe\\-capture (1)\n.PP\nThe documentation is in "
      "/usr/share/doc/kvloupe of an installed package,\nand in the folder docs of the source.\n";
  return page;
}

std::string bash_completion(const CLI::App& app, const KnownWords& known) {
  const std::vector<PageVerb> program = read_program(app, known);
  const std::string& name = program.front().name;
  std::vector<std::string> verbs;
  for (std::size_t i = 1; i < program.size(); ++i) verbs.push_back(program[i].name);
  std::string values, options, arguments;
  for (const PageVerb& verb : program) {
    const bool itself = &verb == &program.front();
    const auto known_words = [&](const std::vector<std::string>& words) {
      return fmt::format("      {}) words={} ;;\n", itself ? "''" : verb.name,
                         shell_word(fmt::format("{}", fmt::join(words, " "))));
    };
    values += bash_values(verb, itself ? "" : verb.name);
    std::vector<std::string> names;
    for (const PageOption& option : verb.options)
      names.insert(names.end(), option.names.begin(), option.names.end());
    options += known_words(names);
    if (const auto words = itself ? verbs : argument_words(verb); !words.empty())
      arguments += known_words(words);
  }
  // bash cuts a line into words at = too, and at the parentheses of a policy.
  return fmt::format(
      R"(# Completes the command line of {0} in bash. Written by {0} itself.
{1}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb= words= before= i
  COMPREPLY=()
  if [[ $cur == '=' ]]; then
    cur=
  elif [[ $prev == '=' && $COMP_CWORD -ge 2 ]]; then
    prev=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      {2}) verb=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case $verb:$prev in
{3}  esac
  if [[ -n $words ]]; then
    before=${{cur%"${{cur##*[+,]}}"}}
    cur=${{cur##*[+,]}}
  elif [[ $cur == -* ]]; then
    case $verb in
{4}    esac
  else
    case $verb in
{5}    esac
  fi
  [[ -n $words ]] && COMPREPLY=($(compgen -P "$before" -W "$words" -- "$cur"))
}}
complete -o default -F {1} {0}
)",
      name, function_name(name), fmt::join(verbs, "|"), values, options, arguments);
}

std::string zsh_completion(const CLI::App& app, const KnownWords& known) {
  const std::vector<PageVerb> program = read_program(app, known);
  const std::string& name = program.front().name;
  std::string verbs, cases;
  for (std::size_t i = 1; i < program.size(); ++i) {
    const PageVerb& verb = program[i];
    verbs += " \\\n        " + shell_word(zsh_text(verb.name) + ":" + verb.help);
    cases += fmt::format(
        "        {})\n          _arguments{} \\\n        {}\n          ;;\n", verb.name,
        zsh_arguments(verb),
        shell_word("*:" + std::string("argument") + ":" + zsh_action(argument_words(verb))));
  }
  return fmt::format(
      R"(#compdef {0}
# Completes the command line of {0} in zsh. Written by {0} itself.
{1}() {{
  local curcontext=$curcontext state line ret=1
  local -a verbs
  typeset -A opt_args
  _arguments -C{2} \
        '1: :->verb' '*:: :->rest' && ret=0
  case $state in
    verb)
      verbs=({3})
      _describe -t verbs verb verbs && ret=0
      _files && ret=0
      ;;
    rest)
      case $words[1] in
{4}        *) _files ;;
      esac && ret=0
      ;;
  esac
  return ret
}}
{1} "$@"
)",
      name, function_name(name), zsh_arguments(program.front()), verbs, cases);
}

void add_page_option(CLI::App& program, std::string version, std::function<KnownWords()> words) {
  program
      .add_option_function<std::string>(
          "--print-page",
          [&program, version = std::move(version),
           words = std::move(words)](const std::string& page) {
            const std::string text = page == "man"    ? manual_page(program, version)
                                     : page == "bash" ? bash_completion(program, words())
                                                      : zsh_completion(program, words());
            std::fwrite(text.data(), 1, text.size(), stdout);
            throw CLI::Success();
          },
          "Print the manual page, or the completion for a shell")
      ->check(CLI::IsMember({"man", "bash", "zsh"}))
      ->group("");
}

}  // namespace kvloupe

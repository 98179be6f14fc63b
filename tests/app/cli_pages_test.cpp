// The manual page and the completion that the package installs: as complete as --help, and tried in
// the shells themselves.

#include "analysis/base/cli/command_pages.h"
#include "analysis/base/system/blas.h"
#include "tests/app/cli_call.h"
#include "tests/support/test.h"
#include "version.h"

namespace kvloupe {
namespace {

std::string output_of(std::vector<std::string> arguments) {
  const test::Called called = test::call(std::move(arguments), "abc123");
  EXPECT_EQ(called.code, 0) << called.error;
  return called.out;
}

std::string page(const std::string& kind) { return output_of({"--print-page", kind}); }

/// The output of a line of the shell.
std::string shell(const std::string& line) {
  std::FILE* pipe = popen(line.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const std::size_t read = std::fread(buffer, 1, sizeof buffer, pipe))
    out.append(buffer, read);
  pclose(pipe);
  return out;
}

bool installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
}

/// The long options that a text names.
std::set<std::string> options_in(const std::string& text) {
  static const std::regex option("--[a-z][a-z0-9-]*[a-z0-9]");
  return {std::sregex_token_iterator(text.begin(), text.end(), option), {}};
}

std::vector<std::string> verbs() {
  const std::string help = output_of({"--help"});
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);)
    if (line.size() > 2 && line[0] == ' ' && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  return names;
}

TEST(Version, NamesTheCommit) {
  EXPECT_EQ(output_of({"--version"}),
            "kvloupe " KVLOUPE_VERSION " (abc123)\nmatrix products: " + blas_kernels() + "\n");
}

TEST(ManualPage, HasEveryVerbAndOption) {
  std::string text = page("man");
  text = std::regex_replace(text, std::regex(R"(\\-)"), "-");
  ASSERT_THAT(verbs(), Contains("export"));
  for (const std::string& verb : verbs()) {
    EXPECT_THAT(text, HasSubstr("\n.SS " + verb + "\n"));
    const std::size_t begin = text.find("\n.SS " + verb + "\n");
    const std::string part = text.substr(
        begin, std::min(text.find("\n.SS ", begin + 1), text.find("\n.SH", begin)) - begin);
    const std::set<std::string> there = options_in(part);
    for (const std::string& option : options_in(output_of({verb, "--help"})))
      EXPECT_THAT(there, Contains(option)) << verb;
  }
}

TEST(ManualPage, IsReadByTheProgramsThatShowIt) {
  if (!installed("mandoc")) GTEST_SKIP() << "mandoc is not installed";
  const test::TemporaryFolder folder;
  std::ofstream(folder / "kvloupe.1") << page("man");
  EXPECT_EQ(shell("mandoc -T lint -W error " + (folder / "kvloupe.1").string() + " 2>&1"), "");
  const std::string shown = shell("mandoc -T utf8 " + (folder / "kvloupe.1").string());
  EXPECT_THAT(shown, HasSubstr("filmstrip")) << "the list under the verb";
}

TEST(ManualPage, KeepsTextThatLooksLikeCommands) {
  CLI::App app{"loupe: .a line\n.SH here\n'and \\fB", "loupe"};
  EXPECT_THAT(manual_page(app, "1"), HasSubstr("\\&.a line\n\\&.SH here\n\\&'and \\efB"));
}

/// The completions of bash for a line whose last word is being written.
struct BashCompletion : testing::Test {
  void SetUp() override { std::ofstream(folder_ / "kvloupe.bash") << page("bash"); }
  std::vector<std::string> offered(const std::vector<std::string>& words) const {
    std::string script = "source " + (folder_ / "kvloupe.bash").string() + "; COMP_WORDS=(kvloupe";
    for (const std::string& word : words) script += " '" + word + "'";
    script += "); COMP_CWORD=" + std::to_string(words.size()) +
              "; _kvloupe; printf '%s\\n' \"${COMPREPLY[@]}\"";
    std::ofstream(folder_ / "ask.bash") << script;
    std::istringstream out(shell("bash --norc " + (folder_ / "ask.bash").string() + " 2>&1"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(out, line);)
      if (!line.empty()) lines.push_back(line);
    return lines;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(BashCompletion, KnowsVerbsAndOptions) {
  EXPECT_THAT(offered({"expo"}), ElementsAre("export", "export-sets"));
  for (const std::string& verb : verbs()) {
    EXPECT_THAT(offered({""}), Contains(verb));
    const std::vector<std::string> options = offered({verb, "--"});
    for (const std::string& option : options_in(output_of({verb, "--help"}))) {
      if (output_of({verb, "--help"}).find("  " + option) != std::string::npos) {
        EXPECT_THAT(options, Contains(option)) << verb;
      }
    }
  }
}

TEST_F(BashCompletion, KnowsTheWordsOfAnOption) {
  EXPECT_THAT(offered({"export", "t.h5", "--theme", ""}),
              ElementsAre("light", "dark", "high-contrast"));
  EXPECT_THAT(offered({"export", "--theme", "=", "l"}), ElementsAre("light"));
  EXPECT_THAT(offered({"export", "--figure", "films"}), ElementsAre("filmstrip"));
  EXPECT_THAT(offered({"replay", "t.h5", "--policy", "keyd"}), ElementsAre("keydiff"));
  EXPECT_THAT(offered({"replay", "t.h5", "--policy", "h2o+rec"}), ElementsAre("h2o+recent"));
  EXPECT_THAT(offered({"sweep", "t.h5", "--policies", "h2o,tov"}), ElementsAre("h2o,tova"));
  EXPECT_THAT(offered({"lesson", "02"}), ElementsAre("02-attention-sinks"));
}

TEST_F(BashCompletion, LeavesFilesToBash) {
  EXPECT_THAT(offered({"replay", ""}), IsEmpty());
  EXPECT_THAT(offered({"export", "t.h5", "-o", "ex"}), IsEmpty());
  EXPECT_THAT(offered({"my-trace.h"}), IsEmpty());
}

TEST(ZshCompletion, OffersTheSame) {
  if (!installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const test::TemporaryFolder folder;
  std::ofstream(folder / "_kvloupe") << page("zsh");
  EXPECT_EQ(shell("zsh -n " + (folder / "_kvloupe").string() + " 2>&1"), "");
  // A terminal in which someone presses the tab key; reads until the wanted text appears.
  std::ofstream(folder / "ask.zsh") << R"(zmodload zsh/zpty
zpty z "PS1= TERM=dumb zsh -f -i"
zpty -w z "fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; setopt no_beep; echo RE''ADY"
zpty -r z out '*READY*'
zpty -w -n z "$2"$'\t'
zpty -r z out "*$3*" && print found
)";
  for (const auto& [line, completed] : {std::pair{"kvloupe galler", "gallery"},
                                        {"kvloupe export --figu", "--figure"},
                                        {"kvloupe export --theme l", "light"},
                                        {"kvloupe replay --policy h2o+rec", "h2o+recent"},
                                        {"kvloupe lesson 02", "02-attention-sinks"}}) {
    const std::string ask = "timeout 60 zsh -f " + (folder / "ask.zsh").string() + " " +
                            folder.path().string() + " '" + line + "' '" + completed + "'";
    EXPECT_EQ(shell(ask), "found\n") << line;
  }
}

// An option that a verb does not have, where the name of a file to write belongs.

TEST(OutputOption, AnUnknownOptionIsNotAFile) {
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"sweep"},
                                             {"study", "run"},
                                             {"advise"},
                                             {"report"},
                                             {"export"},
                                             {"gallery"},
                                             {"page"}}) {
    std::vector<std::string> line = verb;
    line.push_back("--help");
    ASSERT_THAT(test::call(line).out, HasSubstr("--output"));
    line.back() = "-o";
    line.push_back("--no-measures");
    const test::Called said = test::call(line);
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.error, HasSubstr("--output: '--no-measures' reads like an option; "
                                      "for a file of this name write ./--no-measures"))
        << verb.front();
    EXPECT_EQ(std::count(said.error.begin(), said.error.end(), '\n'), 1);
    EXPECT_FALSE(std::filesystem::exists("--no-measures"));
  }
}

}  // namespace
}  // namespace kvloupe

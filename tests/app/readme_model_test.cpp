// The commands of the README and of every page. Those of shell blocks run as they stand there, or
// are run by the file that kElsewhere names. Indented ones often need a model or hours: the program
// must know their words.

#include "tests/support/test.h"

namespace kvloupe {
namespace {

const fs::path kRoot = KVLOUPE_SOURCE_DIR;

struct Elsewhere {
  const char* page;     // "": any
  const char* command;  // its first words
  const char* file;     // of the test, or of the step of CI
  const char* words;    // that show it there
};
constexpr Elsewhere kElsewhere[] = {
    {"", "scripts/demo.sh", ".ci/run", "demo.sh"},
    {"", "scripts/test.sh", ".ci/run", "test.sh"},
    {"", "scripts/wheel.sh", ".ci/run", "wheel.sh"},
    {"", "scripts/package.sh", ".ci/run", "package.sh"},
    {"", "scripts/test-python.sh", ".ci/run", "test-python.sh"},
    {"", "scripts/real-model.sh", "scripts/test-python.sh", "scripts/real-model.sh"},
    {"", "pip install build/kvloupe-", "scripts/check-unpacked.sh", "pip install"},
    {"", "kvloupe demo", "scripts/check-unpacked.sh", "kvloupe demo"},
    {"", "sudo apt install ./build/kvloupe_", "scripts/check-unpacked.sh",
     "dpkg-deb -x build/kvloupe_"},
    {"", "build/bin/kvloupe trace.h5", "tests/app/real_events_gui_test.cpp", "start({"},
    {"README.md", "pip install \"./python", "scripts/python-venv.sh", "python"},
    {"README.md", "python ", "tests/python/test_package.py", "README.md"},
    {"docs/engine.md", "cc keep.c ", "tests/python/test_engine.py", "keep.c"},
    {"docs/engine.md", "./keep ", "tests/python/test_engine.py", "keep.c"},
    {"docs/plugins.md", "", "tests/plugins/install_slow_test.cpp", "docs/plugins.md"},
};

struct Command {
  std::string text;
  bool block;  // of a shell block; or indented
};

std::vector<Command> commands_of(const std::string& page) {
  static const std::regex program("(build/bin/)?kvloupe(-capture)? .*|scripts/[a-z_/-]+\\.sh.*");
  static const std::regex fence("```(sh|bash|shell|console)?");
  std::vector<Command> commands;
  std::ifstream in(kRoot / page);
  bool inside = false, shell = false, known = false;
  for (std::string line, more; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      shell = inside && std::regex_match(line, fence);
      known = line != "```";
      continue;
    }
    while (line.ends_with('\\') && std::getline(in, more)) {
      line.back() = ' ';
      line += more;
    }
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || (inside ? !shell : indent < 4)) continue;
    line = line.substr(line.starts_with("$ ") ? 2 : indent);
    if ((known && inside && line[0] != '#') || std::regex_match(line, program)) {
      commands.push_back({line, inside});
    }
  }
  return commands;
}

std::vector<std::string> pages() {
  std::vector<std::string> found = {"README.md", "CONTRIBUTING.md", "assets/demo-model/README.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md")
      found.push_back("docs/" + entry.path().filename().string());
  }
  std::erase_if(found, [](const std::string& page) { return commands_of(page).empty(); });
  std::sort(found.begin(), found.end());
  return found;
}

struct Documentation : testing::TestWithParam<std::string> {
  Documentation() {
    fs::create_directories(folder_ / "build");
    fs::create_directory(folder_ / "empty");
    fs::create_directory_symlink(KVLOUPE_BIN_DIR, folder_ / "build/bin");
    fs::create_directory_symlink(folder_ / "build", folder_ / "empty/build");
    fs::create_directory_symlink(kRoot / "assets", folder_ / "assets");
  }

  /// A line of a shell without a display: its exit code.
  int run(const std::string& line, const char* where = ".") const {
    const std::string path = folder_.path().string();
    const std::string whole =
        "cd '" + path + "/" + where +
        "' && unset DISPLAY WAYLAND_DISPLAY && export model=none.gguf HOME='" + path + "' PATH='" +
        path + "/build/bin':\"$PATH\" && { " + line + "\n} > /dev/null 2> error.txt";
    const int status = std::system(whole.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

  test::TemporaryFolder folder_;
};

TEST_P(Documentation, EveryCommandWorksAsItStandsThere) {
  if (!fs::exists(folder_ / "build/bin/kvloupe-capture") ||
      !fs::exists(folder_ / "build/bin/kvloupe")) {
    GTEST_SKIP() << "kvloupe and kvloupe-capture are not both built in " << KVLOUPE_BIN_DIR;
  }
  for (const auto& [text, block] : commands_of(GetParam())) {
    const auto* other =
        std::find_if(std::begin(kElsewhere), std::end(kElsewhere), [&](const Elsewhere& one) {
          return text.starts_with(one.command) && (*one.page == '\0' || one.page == GetParam());
        });
    if (!block && text.starts_with("scripts/")) {
      EXPECT_TRUE(fs::exists(kRoot / text.substr(0, text.find(' ')))) << text;
    } else if (!block) {
      static const std::regex unnamed("\\b(NAME|N)\\b");  // for the reader's own
      const int code = std::regex_search(text, unnamed) ? 0 : run(text, "empty");
      EXPECT_TRUE(code == 0 || code == 1) << "ends with " << code << ": " << text;
    } else if (other != std::end(kElsewhere)) {
      const std::string there = test::file_text(kRoot / other->file);
      EXPECT_NE(there.find(other->words), std::string::npos)
          << other->file << " does not run: " << text;
    } else if (text.starts_with("kvloupe") || text.starts_with("build/bin/kvloupe")) {
      if (text.find("-o trace.h5") == std::string::npos && !fs::exists(folder_ / "trace.h5")) {
        run("kvloupe-capture run --model assets/demo-model --prompt assets/prompts/needle.txt "
            "-o trace.h5");
      }
      EXPECT_EQ(run(text), 0) << text;
      static const std::regex output("(-o|--json|--pdf|--html) ([^ ]+)");
      for (std::sregex_iterator at(text.begin(), text.end(), output), end; at != end; ++at) {
        const fs::path made = folder_ / (*at)[2].str();
        EXPECT_TRUE(fs::is_directory(made) || (fs::exists(made) && fs::file_size(made) > 100))
            << text;
      }
    } else {
      ADD_FAILURE() << "no test and no step of CI runs this; see kElsewhere: " << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, Documentation, testing::ValuesIn(pages()), [](const auto& page) {
  return std::regex_replace(fs::path(page.param).stem().string(), std::regex("-"), "_") +
         (page.param.starts_with("assets") ? "_of_the_model" : "");
});

}  // namespace
}  // namespace kvloupe

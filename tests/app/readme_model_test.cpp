// The README's commands, run as they stand there.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

/// Lines of the README's sh blocks that call a program of the build.
std::vector<std::string> readme_commands() {
  std::ifstream in(fs::path(KVLOUPE_SOURCE_DIR) / "README.md");
  std::vector<std::string> commands;
  std::string line;
  bool inside = false;
  while (std::getline(in, line)) {
    if (line.starts_with("```")) {
      inside = line == "```sh";
    } else if (inside && line.starts_with("build/bin/")) {
      commands.push_back(line);
    }
  }
  return commands;
}

TEST(Readme, EveryCommandWorksAsItStandsThere) {
  const fs::path bin = KVLOUPE_BIN_DIR;
  if (!fs::exists(bin / "kvloupe-capture") || !fs::exists(bin / "kvloupe")) {
    GTEST_SKIP() << "kvloupe and kvloupe-capture are not both built in " << bin;
  }
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "build");
  fs::create_directory_symlink(bin, folder / "build/bin");
  fs::create_directory_symlink(fs::path(KVLOUPE_SOURCE_DIR) / "assets", folder / "assets");
  const std::vector<std::string> commands = readme_commands();
  ASSERT_GE(commands.size(), 8U);
  for (const std::string& command : commands) {
    const std::string line =
        "cd '" + (folder / ".").string() + "' && " + command + " > out.txt 2> error.txt";
    EXPECT_EQ(std::system(line.c_str()), 0) << command;
  }
  for (const char* made :
       {"trace.h5", "kept.json", "sweep.csv", "filmstrip.pdf", "keys.svg", "figures/pca.png"}) {
    std::error_code error;
    EXPECT_GT(fs::file_size(folder / made, error), 100U) << made;
  }
}

}  // namespace
}  // namespace kvloupe

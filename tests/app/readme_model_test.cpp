// The commands of the README and of other pages, run as they stand there.

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

struct Page {
  const char* file;
  std::size_t least;              // commands
  std::vector<const char*> made;  // files that must be there afterwards
};

class Documentation : public testing::TestWithParam<Page> {};

/// Lines of a page's sh blocks that call a program of the build.
std::vector<std::string> commands_of(const std::string& file) {
  std::ifstream in(fs::path(KVLOUPE_SOURCE_DIR) / file);
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

TEST_P(Documentation, EveryCommandWorksAsItStandsThere) {
  const fs::path bin = KVLOUPE_BIN_DIR;
  if (!fs::exists(bin / "kvloupe-capture") || !fs::exists(bin / "kvloupe")) {
    GTEST_SKIP() << "kvloupe and kvloupe-capture are not both built in " << bin;
  }
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "build");
  fs::create_directory_symlink(bin, folder / "build/bin");
  fs::create_directory_symlink(fs::path(KVLOUPE_SOURCE_DIR) / "assets", folder / "assets");
  const std::vector<std::string> commands = commands_of(GetParam().file);
  ASSERT_GE(commands.size(), GetParam().least);
  for (const std::string& command : commands) {
    const std::string line =
        "cd '" + (folder / ".").string() + "' && " + command + " > out.txt 2> error.txt";
    EXPECT_EQ(std::system(line.c_str()), 0) << command;
  }
  for (const char* made : GetParam().made) {
    std::error_code error;
    EXPECT_GT(fs::file_size(folder / made, error), 100U) << made;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pages, Documentation,
    testing::Values(Page{"README.md",
                         8,
                         {"trace.h5", "kept.json", "sets.safetensors", "sweep.csv", "filmstrip.pdf",
                          "keys.svg", "figures/pca.png"}},
                    Page{"docs/follow.md",
                         8,
                         {"trace.h5", "follow.json", "follow.svg", "survival.svg", "roles.svg",
                          "dropped.h5", "rescue.json"}}),
    [](const auto& page) { return fs::path(page.param.file).stem().string(); });

}  // namespace
}  // namespace kvloupe

// What a commit may hold: a trace or a results file that a command wrote into the checkout by
// mistake stays in the history for ever.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::string kRoot = KVLOUPE_SOURCE_DIR;
constexpr std::uintmax_t kMostBytes = 512 * 1024;

/// The files that git knows here, relative to the root; empty outside a checkout.
std::set<std::string> committed_files() {
  std::set<std::string> files;
  std::FILE* git = popen(("git -C '" + kRoot + "' ls-files -z 2>/dev/null").c_str(), "r");
  if (!git) return files;
  std::string name;
  for (int c = std::fgetc(git); c != EOF; c = std::fgetc(git)) {
    if (c != '\0') {
      name += static_cast<char>(c);
    } else {
      files.insert(name);
      name.clear();
    }
  }
  pclose(git);
  return files;
}

TEST(Tree, HoldsNoFileThatACommandWroteByMistake) {
  const std::set<std::string> files = committed_files();
  if (files.empty()) GTEST_SKIP() << "not a git checkout";
  ASSERT_TRUE(files.count("CMakeLists.txt"));
  const std::set<std::string> large = {"assets/demo-model/model.safetensors"};
  for (const std::string& file : files) {
    for (const fs::path& part : fs::path(file))
      EXPECT_NE(part.string()[0], '-') << file << ": written in place of an option?";
    const fs::path path = fs::path(kRoot) / file;
    if (large.count(file) || !fs::is_regular_file(path)) continue;
    EXPECT_LE(fs::file_size(path), kMostBytes)
        << file << ": too large for the tree; if it belongs there, name it in this test";
  }
}

}  // namespace

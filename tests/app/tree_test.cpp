// What a commit may hold: a trace or a results file that a command wrote into the checkout by
// mistake stays in the history for ever.

#include "tests/support/test.h"
#include "version.h"

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

// Several files describe a release in the same way.

std::string text_of(const std::string& name) {
  const std::string text = kvloupe::test::file_text(fs::path(KVLOUPE_SOURCE_DIR) / name);
  return text;
}

std::string first_match(const std::string& name, const std::string& pattern) {
  const std::string text = text_of(name);
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str()
                                                             : "nothing in " + name;
}

TEST(Release, HasOneVersion) {
  EXPECT_EQ(first_match("CITATION.cff", "\nversion: ([0-9.]+)"), KVLOUPE_VERSION);
  EXPECT_EQ(first_match("CHANGELOG.md", "\n## ([0-9.]+)\n"), KVLOUPE_VERSION);
  EXPECT_EQ(first_match("python/kvloupe/version.py", "\nVERSION = \"([0-9.]+)\""), KVLOUPE_VERSION);
  EXPECT_EQ(first_match("assets/desktop/org.kvloupe.kvloupe.metainfo.xml",
                        "<release version=\"([0-9.]+)\""),
            KVLOUPE_VERSION);
}

TEST(Release, TheMenuAndTheCatalogueNameFilesThatExist) {
  const std::string desktop = text_of("assets/desktop/kvloupe.desktop");
  EXPECT_THAT(desktop, testing::HasSubstr("\nExec=kvloupe %F\n"));
  EXPECT_THAT(desktop, testing::HasSubstr("\nTerminal=false\n"));
  EXPECT_THAT(desktop, testing::HasSubstr("\nMimeType=application/x-kvloupe-trace;\n"));
  const std::string type = "application/x-kvloupe-trace";
  EXPECT_EQ(first_match("assets/desktop/kvloupe.xml", "<mime-type type=\"([^\"]+)\""), type);
  EXPECT_EQ(first_match("assets/desktop/org.kvloupe.kvloupe.metainfo.xml",
                        "<mediatype>([^<]+)</mediatype>"),
            type);
}

}  // namespace

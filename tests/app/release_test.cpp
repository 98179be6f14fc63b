// Several files describe a release in the same way.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "version.h"

namespace {

std::string text_of(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(KVLOUPE_SOURCE_DIR) / name).rdbuf();
  return text.str();
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
  EXPECT_EQ(first_match("capture/python/kvloupe/version.py", "\nVERSION = \"([0-9.]+)\""),
            KVLOUPE_VERSION);
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

#include "analysis/policy/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace kvloupe {
namespace {

TEST(PolicyText, TheDocumentIsWhatTheCatalogueSays) {
  std::ifstream file(KVLOUPE_SOURCE_DIR "/docs/policies.md");
  ASSERT_TRUE(file) << "docs/policies.md is missing";
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), policies_markdown())
      << "stale; write it anew: kvloupe policies --markdown > docs/policies.md";
}

TEST(PolicyText, NamesEveryPartAndParameter) {
  const std::string text = policies_markdown();
  for (const PolicyEntry& entry : policy_catalog()) {
    EXPECT_THAT(text, testing::HasSubstr("### " + entry.name + "\n"));
    for (const ParameterInfo& parameter : entry.parameters) {
      EXPECT_THAT(text, testing::HasSubstr("| `" + parameter.name + "` |"));
    }
    // Examples are specs.
    if (!entry.example.empty()) {
      EXPECT_EQ(parse_policy(entry.example).text(), entry.example);
    }
  }
}

}  // namespace
}  // namespace kvloupe

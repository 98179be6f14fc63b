#include "analysis/policy/policy_text.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "analysis/policy/published.h"

namespace kvloupe {
namespace {

TEST(PublishedPolicies, AreCanonicalAndDifferFromWhatIsCalledPlain) {
  std::set<std::string> methods;
  for (const PublishedPolicy& policy : published_policies()) {
    ASSERT_NE(find_policy(policy.part), nullptr) << policy.part;
    EXPECT_TRUE(methods.insert(policy.method).second) << policy.method;
    EXPECT_EQ(parse_policy(policy.spec).text(), policy.spec);
    EXPECT_TRUE(parse_policy(policy.spec).find(policy.part) != nullptr ||
                parse_policy(policy.spec).score().name == policy.part)
        << policy.spec;
    EXPECT_FALSE(policy.why.empty());
    if (!policy.plain.empty()) {
      EXPECT_NE(parse_policy(policy.plain), parse_policy(policy.spec)) << policy.method;
    }
  }
  EXPECT_EQ(published_spec("h2o"), "h2o+recent(50%)");
  EXPECT_EQ(published_spec("random"), "random") << "stands for itself";
  EXPECT_EQ(published_list({"A", "h2o+caote", "keydiff(anchor=pairwise)"}),
            "A,h2o+recent(50%)+caote,keydiff(anchor=pairwise)");
}

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

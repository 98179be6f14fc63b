#include "app/window/state/policy_variants.h"

#include <gmock/gmock.h>

#include <set>

#include "analysis/policy/policy_catalog.h"

namespace kvloupe::window {
namespace {

using testing::Contains;
using testing::Not;

std::vector<std::string> specs_of(const std::string& policy) {
  std::vector<std::string> specs;
  for (const PolicyVariant& variant : variants_of(parse_policy(policy)))
    specs.push_back(variant.spec);
  return specs;
}

TEST(PolicyVariants, AreWhatMethodsName) {
  EXPECT_THAT(specs_of("h2o"), testing::ElementsAre("h2o+recent(50%)", "h2o(visible)"));
  EXPECT_THAT(specs_of("tova"), Contains("tova(layer,protect_last=1)"));
  EXPECT_THAT(specs_of("snapkv"), Contains("snapkv(pool=max)"));
  EXPECT_THAT(specs_of("keydiff"), Contains("keydiff(pairwise)"));
}

TEST(PolicyVariants, LeaveTheOtherPartsAlone) {
  EXPECT_THAT(specs_of("h2o+caote"), Contains("h2o(visible)+caote"));
  EXPECT_THAT(specs_of("h2o+caote"), Contains("h2o+fastcaote"));
  EXPECT_THAT(specs_of("h2o+recent(10%)"), Contains("h2o+recent(50%)"))
      << "a variant's own part wins";
}

TEST(PolicyVariants, AreCanonicalNeverThePolicyItselfAndNeverTwice) {
  for (const PolicyEntry& entry : policy_catalog()) {
    const std::string score = entry.traits.reads_probe ? "kvzip+" : "h2o+";
    std::string spec = entry.kind() == PartKind::score ? entry.name : score + entry.name;
    if (!entry.parameters.empty() && entry.parameters.front().required) continue;
    const PolicySpec policy = parse_policy(spec);
    std::set<std::string> seen = {policy.text()};
    for (const PolicyVariant& variant : variants_of(policy)) {
      EXPECT_EQ(parse_policy(variant.spec).text(), variant.spec);
      EXPECT_TRUE(seen.insert(variant.spec).second) << variant.spec;
    }
  }
  EXPECT_THAT(specs_of("h2o(visible)"), Not(Contains("h2o(visible)")));
}

}  // namespace
}  // namespace kvloupe::window

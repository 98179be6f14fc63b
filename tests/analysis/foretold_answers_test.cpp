#include "analysis/measure/foretold_answers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "analysis/measure/measure_catalog.h"

namespace kvloupe::test {
namespace {

using testing::HasSubstr;

TEST(ForetoldAnswers, AreOfMeasuresThatThereAreEachOnceTheBestFirst) {
  const auto& all = foretold_answers();
  ASSERT_FALSE(all.empty());
  std::set<std::string_view> names;
  double before = 1.0;
  for (const ForetoldAnswers& one : all) {
    EXPECT_TRUE(names.insert(one.measure).second) << one.measure;
    EXPECT_NO_THROW(require_measure(std::string(one.measure)));
    const double least = std::fmin(one.needles, one.things);  // of what is known
    EXPECT_LE(least, before) << one.measure;
    EXPECT_GE(least, -1.0);
    before = least;
  }
}

TEST(ForetoldAnswers, TheTextSaysHowWellAndNothingOfOthers) {
  EXPECT_THAT(foretold_text("answer_residual_change"), HasSubstr("(31 needles)"));
  EXPECT_THAT(foretold_text("answer_residual_change"), HasSubstr("(21 things)"));
  EXPECT_EQ(foretold_text("retained"), "");
}

}  // namespace
}  // namespace kvloupe::test

#include "analysis/duration_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvloupe::test {
namespace {

TEST(DurationText, IsRoundedUpAsAPersonSaysIt) {
  EXPECT_EQ(duration_text(0.0), "about 1 s");
  EXPECT_EQ(duration_text(3.2), "about 4 s");
  EXPECT_EQ(duration_text(10.0), "about 10 s");
  EXPECT_EQ(duration_text(34.0), "about 40 s");
  EXPECT_EQ(duration_text(90.0), "about 90 s");
  EXPECT_EQ(duration_text(91.0), "about 2 min");
  EXPECT_EQ(duration_text(3540.0), "about 59 min");
  EXPECT_EQ(duration_text(3600.0), "about 1 h");
  EXPECT_EQ(duration_text(4000.0), "about 1 h 7 min");
  for (const double odd :
       {-5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(duration_text(odd), "about 1 s");
  }
}

}  // namespace
}  // namespace kvloupe::test

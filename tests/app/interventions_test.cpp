#include "app/session/interventions.h"

#include <gtest/gtest.h>

#include "analysis/error.h"

namespace kvloupe::window {
namespace {

TEST(Interventions, NameTheTokenAndTheHead) {
  EXPECT_EQ(with_intervention("keydiff", Intervention::keep, 12, HeadIndex{2, 1}),
            "keydiff+keep(\"12\",heads=\"2.1\")");
  EXPECT_EQ(with_intervention("keydiff", Intervention::keep, 12, std::nullopt),
            "keydiff+keep(\"12\")");
  EXPECT_EQ(with_intervention("h2o+recent(3)", Intervention::drop, 7, HeadIndex{0, 0}),
            "h2o+recent(3)+drop(\"7\",heads=\"0.0\")");
  EXPECT_EQ(with_intervention("full", Intervention::drop, 7, std::nullopt), "full+drop(\"7\")");
}

TEST(Interventions, OneThatIsThereTakesTheTokenToo) {
  const std::string one = "keydiff+keep(\"12\",heads=\"2.1\")";
  EXPECT_EQ(with_intervention(one, Intervention::keep, 14, HeadIndex{2, 1}),
            "keydiff+keep(\"12;14\",heads=\"2.1\")");
  EXPECT_EQ(with_intervention(one, Intervention::keep, 12, HeadIndex{3, 0}),
            "keydiff+keep(\"12\",heads=\"2.1;3.0\")");
  EXPECT_EQ(with_intervention(one, Intervention::keep, 12, std::nullopt), "keydiff+keep(\"12\")");
  EXPECT_EQ(
      with_intervention("h2o+keep(\"10-20\",heads=\"2\")", Intervention::keep, 15, HeadIndex{2, 1}),
      "h2o+keep(\"10-20\",heads=\"2\")")
      << "named already";
}

TEST(Interventions, WhatCannotBeIsRefused) {
  EXPECT_THROW(with_intervention("full", Intervention::keep, 1, std::nullopt), UsageError);
  EXPECT_THROW(with_intervention("nonsense", Intervention::keep, 1, std::nullopt), UsageError);
}

}  // namespace
}  // namespace kvloupe::window

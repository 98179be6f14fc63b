#include "app/session/interventions.h"

#include <gtest/gtest.h>

#include "analysis/error.h"

namespace kvloupe::window {
namespace {

std::string intervened(const std::string& spec, Intervention what, TokenRange tokens,
                       std::optional<HeadIndex> head) {
  return with_intervention(parse_policy(spec), what, tokens, head).text();
}

TEST(Interventions, NameTheTokenAndTheHead) {
  EXPECT_EQ(intervened("keydiff", Intervention::keep, TokenRange{12, 13}, HeadIndex{2, 1}),
            "keydiff+keep(\"12\",heads=\"2.1\")");
  EXPECT_EQ(intervened("keydiff", Intervention::keep, TokenRange{12, 13}, std::nullopt),
            "keydiff+keep(\"12\")");
  EXPECT_EQ(
      intervened("h2o+recent(3)", Intervention::drop, TokenRange{7, 8}, HeadIndex{0, 0}),
      "h2o+recent(3)+drop(\"7\",heads=\"0.0\")");
  EXPECT_EQ(intervened("full", Intervention::drop, TokenRange{7, 8}, std::nullopt),
            "full+drop(\"7\")");
}

TEST(Interventions, OneThatIsThereTakesTheTokenToo) {
  const std::string one = "keydiff+keep(\"12\",heads=\"2.1\")";
  EXPECT_EQ(intervened(one, Intervention::keep, TokenRange{14, 15}, HeadIndex{2, 1}),
            "keydiff+keep(\"12;14\",heads=\"2.1\")");
  EXPECT_EQ(intervened(one, Intervention::keep, TokenRange{12, 13}, HeadIndex{3, 0}),
            "keydiff+keep(\"12\",heads=\"2.1;3.0\")");
  EXPECT_EQ(intervened(one, Intervention::keep, TokenRange{12, 13}, std::nullopt),
            "keydiff+keep(\"12\")");
  EXPECT_EQ(intervened("h2o+keep(\"10-20\",heads=\"2\")", Intervention::keep,
                              TokenRange{15, 16}, HeadIndex{2, 1}),
            "h2o+keep(\"10-20\",heads=\"2\")")
      << "named already";
}

TEST(Interventions, TakeARangeOfTokens) {
  EXPECT_EQ(intervened("keydiff", Intervention::keep, TokenRange{12, 20}, HeadIndex{2, 1}),
            "keydiff+keep(\"12-19\",heads=\"2.1\")");
  EXPECT_EQ(intervened("keydiff+keep(\"12-19\")", Intervention::keep, TokenRange{14, 19},
                              std::nullopt),
            "keydiff+keep(\"12-19\")")
      << "all named already";
  EXPECT_EQ(intervened("keydiff+keep(\"12-19\")", Intervention::keep, TokenRange{14, 25},
                              std::nullopt),
            "keydiff+keep(\"12-19;14-24\")");
}

TEST(Interventions, WhatCannotBeIsRefused) {
  EXPECT_THROW(intervened("full", Intervention::keep, TokenRange{1, 2}, std::nullopt),
               UsageError);
  EXPECT_THROW(intervened("nonsense", Intervention::keep, TokenRange{1, 2}, std::nullopt),
               UsageError);
}

}  // namespace
}  // namespace kvloupe::window

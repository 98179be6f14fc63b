// User formulas: their functions by hand, their errors by column, and policies written as formulas.

#include "analysis/policy/kit/formula.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

const Formula::Columns kColumns = {{"x", {3, 1, 1, 7}}, {"y", {0, 2, 4, 6}}, {"one", {5, 5, 5, 5}}};

std::vector<double> value(const std::string& text) {
  return Formula(text, {"x", "y", "one"}).evaluate(kColumns, 4);
}

TEST(Formula, ReadsColumnsRowByRow) {
  EXPECT_THAT(value("2*x + y"), ElementsAre(6, 4, 6, 20));
  EXPECT_THAT(value("x > 2 ? -y : 1e-1"), ElementsAre(0, .1, .1, -6));
  EXPECT_THAT(value("max(x, y, 3)"), ElementsAre(3, 3, 4, 7));
  EXPECT_THAT(value("42"), ElementsAre(42, 42, 42, 42));
}

TEST(Formula, FunctionsOfColumns) {
  // 1 1 3 7: the two 1s share (1 + 2)/2.
  EXPECT_THAT(value("rank(x)"), ElementsAre(3, 1.5, 1.5, 4));
  // Mean 3, squares 9 1 1 9: deviation √5.
  const double s = std::sqrt(5.0);
  EXPECT_THAT(value("zscore(y)"), ElementsAre(DoubleNear(-3 / s, 1e-15), DoubleNear(-1 / s, 1e-15),
                                              DoubleNear(1 / s, 1e-15), DoubleNear(3 / s, 1e-15)));
  EXPECT_THAT(value("minmax(x)"), ElementsAre(1.0 / 3, 0, 0, 1));
  // Zeros beyond the ends: (0+3+1)/3, (3+1+1)/3, (1+1+7)/3, (1+7+0)/3.
  EXPECT_THAT(value("smooth(x, 3)"), ElementsAre(4.0 / 3, 5.0 / 3, 3, 8.0 / 3));
  EXPECT_THAT(value("smooth(x, one)"), ElementsAre(1, 12.0 / 5, 12.0 / 5, 9.0 / 5));
  // Nothing differs: neither function divides by zero.
  EXPECT_THAT(value("zscore(one) + minmax(one)"), ElementsAre(0, 0, 0, 0));
  // Any expression inside, also one of these.
  EXPECT_THAT(value("rank(-rank(x) + 10*smooth( y,1 ))"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(value("rank(x)*rank(x)-rank(y)"), ElementsAre(8, .25, -.75, 12));
}

TEST(Formula, ErrorsNameTheWordAndWhereItStands) {
  const std::vector<std::tuple<std::string, std::size_t, std::string, std::string>> cases = {
      {"x + z", 4, "z", "is not a variable"},
      {"rnk(x)", 0, "rnk", "the nearest is 'rank'"},
      {"2*(x", 4, "", "')' is missing"},
      {"x +", 3, "", "ends too early"},
      {"x y", 2, "y", "operator is missing"},
      {"x, y", 1, ",", "one value"},
      {"x = 3", 2, "=", "assignment"},
      {"x $ y", 2, "$", "is not an operator"},
      {"rank(x, y)", 0, "rank", "one argument"},
      {"1 + smooth(x)", 4, "smooth", "two arguments"},
      {"smooth(x, 4)", 10, "4", "odd number"},
      {"smooth(x, -1)", 10, "-1", "odd number"},
      {"rank(x + q)", 9, "q", "is not a variable"},
      {"rank()", 5, "", "an expression is missing"},
      {"zscore(rank(2 + ))", 15, "", "ends too early"},
      {"rank(x", 4, "(", "has no closing ')'"},
      {"3x", 0, "3x", "not a number"},
      {"sin(x, y)", 0, "sin", "too many"},
      {"\"x\"", 0, "\"", "is not an operator"},
      {"", 0, "", "an expression is missing"},
  };
  for (const auto& [text, position, word, why] : cases) {
    try {
      const Formula formula(text, {"x", "y"});
      ADD_FAILURE() << text << " was accepted";
    } catch (const FormulaError& error) {
      EXPECT_EQ(error.position, position) << text << ": " << error.what();
      EXPECT_EQ(error.word, word) << text << ": " << error.what();
      EXPECT_THAT(error.what(), HasSubstr(why)) << text;
    }
  }
}

TEST(Formula, WhatIsNoNumberIsReportedWithItsRow) {
  try {
    value("rank(1/(y - 4))");
    FAIL();
  } catch (const FormulaValueError& error) {
    EXPECT_EQ(error.row, 2U);
    EXPECT_THAT(error.what(), HasSubstr("rank at column 1"));
  }
  EXPECT_THROW(value("smooth(x, y)"), FormulaValueError);
  EXPECT_TRUE(std::isinf(value("1/y")[0]));
}

TEST(Formula, AnyTextIsReadOrRefusedInsideItsLength) {
  std::mt19937 random(4);
  const std::vector<std::string> pieces = {
      "x",  "y", "rank(", "smooth(", "sin(", ")", "(",  ",", "+", "-",  "*",  "/",  "^",  "3",
      ".5", "7", " ",     "?",       ":",    "<", "==", "!", "=", "&&", "_0", "1e", "zz", "\xC3"};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const std::size_t length = 1 + random() % 9;
    for (std::size_t i = 0; i < length; ++i) text += pieces[random() % pieces.size()];
    try {
      const Formula formula(text, {"x", "y", "one"});
      ++accepted;
      try {
        ASSERT_EQ(formula.evaluate(kColumns, 4).size(), 4U);
      } catch (const FormulaValueError& error) {
        ASSERT_LT(error.row, 4U);
      }
    } catch (const FormulaError& error) {
      ASSERT_LE(error.position, text.size()) << text;
      ASSERT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_THROW(Formula(std::string(100000, '('), {"x"}), FormulaError);
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "rank(";
  EXPECT_THROW(Formula(deep + "x" + std::string(200, ')'), {"x"}), FormulaError);
}

TEST(Expr, ASpecNamesTheColumnOfTheFormulasError) {
  const auto refusal = [](const std::string& spec) -> std::string {
    return test::error_of<UsageError>([&] { parse_policy(spec); }, "accepted");
  };
  EXPECT_THAT(refusal("expr(\"attn_last + kay_norm\")"),
              HasSubstr("'kay_norm' at column 19: is not a variable; the nearest is 'key_norm'"));
  EXPECT_THAT(refusal("expr(formula=\"age +\")+recent"),
              HasSubstr("at column 20: the formula ends"));
  EXPECT_EQ(refusal("expr(age)"), "accepted");
  EXPECT_THAT(refusal("expr"), HasSubstr("needs formula"));
}

struct ExprReplay : testing::Test, test::MadeTrace {
  ExprReplay() : MadeTrace({.prompt_length = 80}) {}
  Replay run(const std::string& spec) {
    return MadeTrace::run(spec, 24,
                          {.block = 16, .metrics = false, .scores_layer = 1, .scores_head = 1});
  }
};

TEST_F(ExprReplay, PoliciesWrittenAsFormulasAreThosePolicies) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"expr(\"attn_last\")", "tova"},
      {"expr(\"attn_sum\")", "h2o"},
      {"expr(\"attn_sum / (age + 1)\")", "h2o(visible)"},
      {"expr(\"smooth(attn_window, 7)\")+recent(32)", "snapkv+recent(32)"},
      {"expr(\"-cos_anchor\")", "keydiff"},
      {"expr(\"-cos_mean\")", "keydiff(rawmean)"},
      {"expr(\"-key_norm\")", "keynorm"},
      {"expr(\"position\")+sinks(4)", "sink"},
      {"expr(\"rank(-age)\")+sinks(4)", "sink"},
      {"expr(\"attn_last/(1-attn_last)*dist_output\")", "tova+caote"},
      {"expr(\"(attn_last + 1e-4) * value_out_norm\")", "tova+critical(0)"},
      {"expr(\"attn_sum\")+cam", "h2o+cam"},
      {"expr(\"attn_sum\")+kvmerger(auto)", "h2o+kvmerger(auto)"},
      {"expr(\"attn_last\")+cam(4)", "tova+cam(4)"},
      {"expr(\"n == 0 ? age : budget * is_recent + position / 1000\")", "sink(0)"},
  };
  for (const auto& [formula, spec] : pairs) {
    const Replay a = run(formula);
    const Replay b = run(spec);
    test::expect_same_sets(a, b, formula);
    if (formula.find('/') == std::string::npos && formula.find("cam") != std::string::npos) {
      EXPECT_EQ(a.find(1, 1)->scores, b.find(1, 1)->scores) << formula;
    }
  }
}

TEST_F(ExprReplay, NotANumberIsReportedWithTheToken) {
  EXPECT_THAT(test::error_of<WorkError>([&] { run("expr(\"sqrt(9 - position)\")"); }),
              AllOf(HasSubstr("expr: the formula is not a finite number at layer"),
                    HasSubstr("token 10, step "), HasSubstr("; change the formula")));
  EXPECT_THAT(test::error_of<WorkError>([&] { run("expr(\"zscore(1 / (position - 3))\")"); }),
              AllOf(HasSubstr("zscore at column 1 of the formula"), HasSubstr("token 3, step")));
}

}  // namespace
}  // namespace kvloupe

#include "capture/model/runs_together.h"

#include <c10/core/InferenceMode.h>

#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// Parts that count how often they are computed, and for how many tokens at most.
struct RunsTogether : testing::Test {
  /// x + 1 for so many tokens of one run; every third time by another part, which fails on request.
  at::Tensor run(int tokens, double start, bool fails = false) {
    at::Tensor x = at::full({1, 1, 3}, start);
    for (int token = 0; token < tokens; ++token) {
      const int name = token % 3 == 2 ? 1 : 0;
      x = compute_together({this, name}, {{x, 1}, {{}, 0}},
                           [&, name](const std::vector<at::Tensor>& of) {
                             EXPECT_FALSE(of[1].defined());
                             ++computed_;
                             most_ = std::max(most_, of[0].size(1));
                             if (name == 1 && token > 3 && fails)
                               throw std::runtime_error("no memory");
                             return std::vector<AlongTokens>{{of[0] + 1.0, 1}};
                           })
              .front();
    }
    return x;
  }
  int computed_ = 0;  // one at a time: by run_together()
  std::int64_t most_ = 0;
  const c10::InferenceMode no_gradients_;
};

TEST_F(RunsTogether, APartIsComputedOnceForAllWhoComeToItWhereverTheOthersAre) {
  const std::vector<int> tokens = {9, 1, 30, 0, 12};
  std::vector<at::Tensor> made(tokens.size());
  std::vector<std::function<void()>> works;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    works.emplace_back([&, i] { made[i] = run(tokens[i], 10.0 * static_cast<double>(i)); });
  run_together(works);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double expected = 10.0 * static_cast<double>(i) + tokens[i];
    EXPECT_TRUE(at::equal(made[i], at::full({1, 1, 3}, expected))) << "run " << i;
  }
  EXPECT_EQ(computed_, 30);  // as often as the longest run asks
  EXPECT_EQ(most_, 4);
  EXPECT_FALSE(runs_together());  // this thread does no work
}

TEST_F(RunsTogether, ABatchHasAsManyTokensAsLeaveARowItsBits) {
  std::vector<std::function<void()>> works;
  for (int i = 0; i < 70; ++i) works.emplace_back([&, i] { run(2, i); });
  run_together(works);
  EXPECT_EQ(most_, 32);
  EXPECT_GE(computed_, 5);
}

TEST_F(RunsTogether, APartThatFailsEndsThoseWhoWaitForItAlone) {
  std::vector<std::string> ends(4);
  std::vector<std::function<void()>> works;
  for (int i = 0; i < 4; ++i) {
    works.emplace_back([&, i] {
      const int tokens = i == 0 ? 4 : 9;  // the first ends before
      ends[static_cast<std::size_t>(i)] =
          error_of<std::runtime_error>([&] { run(tokens, i, /*fails=*/true); }, "whole");
    });
  }
  run_together(works);
  EXPECT_EQ(ends, (std::vector<std::string>{"whole", "no memory", "no memory", "no memory"}));
}

TEST_F(RunsTogether, ARunThatEndsEarlyLeavesTheOthersToGoOn) {
  std::vector<at::Tensor> last(3);
  std::vector<std::function<void()>> works;
  for (int i = 0; i < 3; ++i) {
    works.emplace_back([&, i] {
      run(5, i);
      if (i != 1) last[static_cast<std::size_t>(i)] = run(9, i);
    });
  }
  run_together(works);
  EXPECT_TRUE(at::equal(last[0], at::full({1, 1, 3}, 9.0)));
  EXPECT_TRUE(at::equal(last[2], at::full({1, 1, 3}, 11.0)));
}

}  // namespace
}  // namespace kvloupe::test

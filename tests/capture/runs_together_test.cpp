#include "capture/model/runs_together.h"

#include <c10/core/InferenceMode.h>

#include "capture/model/projection.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// Weights of a small model, and what runs of it compute.
struct TogetherTest : testing::Test {
  TogetherTest() {
    at::manual_seed(7);
    for (const std::int64_t outputs : {577, 64, 300})
      all_.push_back({at::randn({outputs, 200}), at::randn({outputs})});
    all_[1].bias = at::Tensor();
  }
  /// So many tokens of one run: each product's input depends on the product before.
  std::vector<at::Tensor> run(int tokens, int number) const {
    std::vector<at::Tensor> made;
    at::Tensor x = at::linspace(-1.0, 1.0 + number, 200).reshape({1, 1, 200});
    for (int token = 0; token < tokens; ++token) {
      const auto both = project(x, {&all_[0], &all_[1]});
      made.insert(made.end(), both.begin(), both.end());
      x = both[0].slice(-1, number, number + 200).tanh().contiguous();
      if (token % (number + 2) == 0) x = project(x, {&all_[2]})[0].slice(-1, 0, 200).tanh();
    }
    return made;
  }
  std::vector<Projection> all_;
  const c10::InferenceMode no_gradients_;
};

TEST_F(TogetherTest, EachRunHasTheBitsOfTheRunAloneWhereverTheOthersAre) {
  const std::vector<int> tokens = {9, 1, 30, 0, 12};
  std::vector<std::vector<at::Tensor>> alone, together(tokens.size());
  std::vector<std::function<void()>> works;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    alone.push_back(run(tokens[i], static_cast<int>(i)));
    works.emplace_back([&, i] { together[i] = run(tokens[i], static_cast<int>(i)); });
  }
  run_together(works);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(together[i].size(), alone[i].size());
    for (std::size_t j = 0; j < alone[i].size(); ++j)
      ASSERT_TRUE(at::equal(together[i][j], alone[i][j])) << "run " << i << ", product " << j;
  }
}

TEST_F(TogetherTest, ARunThatFailsLeavesTheOthersToGoOn) {
  std::vector<std::string> ends(3);
  std::vector<at::Tensor> last(3);
  std::vector<std::function<void()>> works;
  for (int i = 0; i < 3; ++i) {
    works.emplace_back([&, i] {
      ends[static_cast<std::size_t>(i)] = error_of<std::runtime_error>([&] {
        const std::vector<at::Tensor> made = run(5, i);
        if (i == 1) throw std::runtime_error("no memory");
        last[static_cast<std::size_t>(i)] = run(9, i).back();
      });
    });
  }
  run_together(works);
  EXPECT_EQ(ends, (std::vector<std::string>{"", "no memory", ""}));
  EXPECT_TRUE(at::equal(last[0], run(9, 0).back()));
  EXPECT_TRUE(at::equal(last[2], run(9, 2).back()));
  EXPECT_FALSE(project_together(at::zeros({1, 200}), {}).has_value());  // this thread is no run
}

}  // namespace
}  // namespace kvloupe::test

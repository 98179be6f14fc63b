// The search for a set that is enough: against what all subsets say, and in its number of tests.
#include "capture/eval/rescue_search.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Tests a rule, remembers the answers, and counts the different sets.
class Tests {
 public:
  explicit Tests(std::function<bool(const std::vector<int>&)> rule, int most = 1 << 30)
      : rule_(std::move(rule)), most_(most) {}
  std::optional<bool> operator()(const std::vector<int>& set) {
    EXPECT_TRUE(std::is_sorted(set.begin(), set.end()));
    if (!asked_.contains(set) && count() == most_) return std::nullopt;
    asked_.insert(set);
    return rule_(set);
  }
  int count() const { return static_cast<int>(asked_.size()); }

 private:
  std::function<bool(const std::vector<int>&)> rule_;
  int most_;
  std::set<std::vector<int>> asked_;
};

std::function<bool(const std::vector<int>&)> needs(std::vector<int> members) {
  return [members = std::move(members)](const std::vector<int>& set) {
    return std::includes(set.begin(), set.end(), members.begin(), members.end());
  };
}

TEST(SetSearch, FindsTheMembersThatAreNeededWhereverTheyStand) {
  for (const std::vector<int>& members :
       {std::vector{0}, {89}, {0, 89}, {3, 4, 50}, {10, 20, 30, 40, 50}}) {
    Tests tests(needs(members));
    const EnoughSet found = smallest_set(numbers(90), std::ref(tests));
    EXPECT_EQ(found.members, members);
    EXPECT_TRUE(found.minimal);
    const double each = 2.0 * std::log2(90.0) + 3.0;
    EXPECT_LE(tests.count(), each * static_cast<double>(members.size()));
  }
}

TEST(SetSearch, AGoodOrderNeedsFewTests) {
  std::vector<int> order = numbers(90);
  std::swap(order[0], order[70]);
  std::swap(order[1], order[60]);
  std::swap(order[2], order[65]);
  Tests tests(needs({60, 65, 70}));
  EXPECT_THAT(smallest_set(order, std::ref(tests)).members, ElementsAre(60, 65, 70));
  EXPECT_LE(tests.count(), 8);
}

TEST(SetSearch, OfRulesThatAreNotMonotoneNoMemberCanBeLeftOut) {
  std::mt19937 chance(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int n = 1 + static_cast<int>(chance() % 9);
    std::vector<char> rule(std::size_t{1} << static_cast<unsigned>(n));
    for (char& one : rule) one = static_cast<char>(chance() % 3 == 0);
    rule.front() = 0;
    rule.back() = 1;
    const auto is_enough = [&](const std::vector<int>& set) {
      std::size_t bits = 0;
      for (const int member : set) bits |= std::size_t{1} << static_cast<unsigned>(member);
      return rule[bits] != 0;
    };
    std::vector<int> order = numbers(n);
    std::shuffle(order.begin(), order.end(), chance);
    Tests tests(is_enough);
    const EnoughSet found = smallest_set(order, std::ref(tests));
    EXPECT_TRUE(found.minimal);
    EXPECT_TRUE(is_enough(found.members));
    for (std::size_t i = 0; found.members.size() > 1 && i < found.members.size(); ++i) {
      std::vector<int> without = found.members;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(is_enough(without));
    }
  }
}

TEST(SetSearch, WhereTestsRunOutTheSetIsEnoughButNotCalledMinimal) {
  const auto rule = needs({7, 30, 61});
  int minimal = 0;
  for (int most = 0; most < 40; ++most) {
    Tests tests(rule, most);
    const EnoughSet found = smallest_set(numbers(90), std::ref(tests));
    EXPECT_TRUE(rule(found.members)) << most;
    EXPECT_LE(tests.count(), most);
    if (found.minimal) {
      EXPECT_THAT(found.members, ElementsAre(7, 30, 61));
      ++minimal;
    }
  }
  EXPECT_GT(minimal, 0);
  EXPECT_LT(minimal, 40);
}

}  // namespace
}  // namespace kvloupe::test

#include "capture/eval/set_search.h"

#include <algorithm>
#include <cstddef>

namespace kvloupe {

namespace {

class SetSearch {
 public:
  SetSearch(const std::vector<int>& order, const EnoughTest& is_enough)
      : rest_(order), is_enough_(is_enough) {}

  EnoughSet run() {
    while (!rest_.empty() && keep_one()) {
    }
    EnoughSet result;
    if (spent_) {
      result.members = with(rest_.size());
      return result;
    }
    leave_out_each();
    result.members = kept_;
    std::sort(result.members.begin(), result.members.end());
    result.minimal = !spent_;
    return result;
  }

 private:
  /// The kept ones and the first `count` of the rest, ascending.
  std::vector<int> with(std::size_t count) const {
    std::vector<int> set = kept_;
    set.insert(set.end(), rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(set.begin(), set.end());
    return set;
  }

  /// False where no further test is allowed.
  bool test(const std::vector<int>& set, bool& enough) {
    const std::optional<bool> result = is_enough_(set);
    if (!result) spent_ = true;
    enough = result.value_or(false);
    return result.has_value();
  }

  /// Finds how many of the rest are needed beside what is kept, and keeps the last of them. All of
  /// the rest are known to be enough. False at the end of the tests.
  bool keep_one() {
    std::size_t enough = rest_.size();        // the fewest known to be
    std::size_t low = kept_.empty() ? 1 : 0;  // fewer than this many are not
    const auto try_count = [&](std::size_t count) {
      bool is = false;
      if (!test(with(count), is)) return false;
      (is ? enough : low) = is ? count : count + 1;
      return true;
    };
    bool goes_on = true;
    for (std::size_t count = low; goes_on && count < enough;
         count = std::max<std::size_t>(1, 2 * count)) {
      goes_on = try_count(count);
    }
    while (goes_on && low < enough) goes_on = try_count((low + enough) / 2);
    rest_.resize(enough);
    if (!goes_on || rest_.empty()) return false;
    kept_.push_back(rest_.back());
    rest_.pop_back();
    return true;
  }

  /// More of a set is not always more: what can be left out of the whole is left out, the member
  /// that matters least first.
  void leave_out_each() {
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (std::size_t i = 0; i < kept_.size() && kept_.size() > 1;) {
        std::vector<int> without = kept_;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        std::vector<int> ascending = without;
        std::sort(ascending.begin(), ascending.end());
        bool is = false;
        if (!test(ascending, is)) return;
        if (is) {
          kept_ = std::move(without);
          smaller = true;
        } else {
          ++i;
        }
      }
    }
  }

  std::vector<int> kept_;  // those that matter least first
  std::vector<int> rest_;  // those that matter most first; with what is kept, enough
  const EnoughTest& is_enough_;
  bool spent_ = false;
};

}  // namespace

EnoughSet smallest_set(const std::vector<int>& order, const EnoughTest& is_enough) {
  return SetSearch(order, is_enough).run();
}

}  // namespace kvloupe

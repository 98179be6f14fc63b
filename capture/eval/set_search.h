#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace kvloupe {

/// A set that is enough.
struct EnoughSet {
  std::vector<int> members;  // ascending
  /// None of them can be left out. Another, smaller set is not excluded.
  bool minimal = false;
};

/// Whether a set (ascending) is enough; nothing where no further test is allowed.
using EnoughTest = std::function<std::optional<bool>(const std::vector<int>&)>;

/// A set of some things that is enough and of which none can be left out. `order`: all of them,
/// those that are thought to matter most first; all together must be enough, and none of them must
/// not be. Finds the shortest beginning of the order that is enough, keeps its last member, and
/// does the same with what stands before, beside what is kept: of n things about log2 n tests per
/// member, few where the order is good. At the end every member is left out once. Where the tests
/// are used up before, the smallest set that was enough so far, not minimal. The same set is tested
/// twice at times: the test should remember.
EnoughSet smallest_set(const std::vector<int>& order, const EnoughTest& is_enough);

}  // namespace kvloupe

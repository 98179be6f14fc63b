#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "capture/eval/rescue_runs.h"

namespace kvloupe {

/// How much each head is thought to matter, [L · Hk]: with the policy, and with the tokens dropped
/// from the full cache. NaN: not known.
struct RescueBlame {
  std::vector<double> keep, drop;
  std::vector<HeadIndex> named;  // named_heads()
};

/// Makes the runs with the tokens kept beside the policy and dropped from the full cache: in all
/// heads at once; in each named head alone; then, unless keeping them in all heads restores
/// nothing, the sets that turn the answer and what is left of the runs for layers and heads alone.
/// Of a model with few places, these come first and say which heads matter most. Fills in keep,
/// drop and stopped of the results. `full` and `policy`: the runs without.
void search_rescue(RescueRuns& runs, const RescueBlame& blame, const RescueOutcome& full,
                   const RescueOutcome& policy, RescueResults& results);

/// The blame from a replay on the full run's states: with the policy, and with the tokens dropped
/// from the full cache. Enters the heads by falling blame into the results. A prompt that is no
/// trace is captured first, with the expected answer after it. Throws Cancelled, FileError.
RescueBlame predict_rescue(const RescueRequest& request, const RescuePrompt& prompt,
                           Progress& progress, RescueResults& results);

/// Enters the blame by head, and its rank correlation with what keeping the tokens in each head
/// proved.
void judge_blame(const RescueBlame& blame, RescueResults& results);

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

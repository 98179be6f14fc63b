#pragma once

#include <string_view>
#include <vector>

#include "analysis/study/study_plan.h"

namespace kvloupe {

/// One of so many parts of a study's items, each with a results file of its own.
struct Shard {
  int number = 1;  // from 1
  int count = 1;
  bool operator==(const Shard&) const = default;
};

/// "3/10". Throws UsageError: another form, 0, more than the count, a count above a million.
Shard parse_shard(std::string_view text);

/// Those of some items (numbers in the plan, ascending) that the shard has: runs of neighbours with
/// about equal costs, so that a shard reads few traces. Every item is in exactly one shard; which
/// one follows from the plan.
std::vector<int> items_of_shard(const StudyPlan& plan, const std::vector<int>& items,
                                const Shard& shard);

}  // namespace kvloupe

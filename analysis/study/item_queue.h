#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/study/study_plan.h"

namespace kvloupe {

/// The items that wait, and who gets which. A worker stays with a trace while the trace has items,
/// so that few processes read the same file; then it gets the trace with the most work left that
/// nobody has; when every trace has a worker, it helps at the trace with the most work left. Within
/// a trace the dearest item comes first, of equal ones the first of the plan. Questions about one
/// context are as one trace, those of one setting follow each other.
class ItemQueue {
 public:
  /// `waiting`: numbers of items in the plan. The plan must outlive the queue.
  ItemQueue(const StudyPlan& plan, const std::vector<int>& waiting);

  /// The next item of a worker, by its number in the plan; none if all are handed out.
  std::optional<int> next(int worker);
  /// Whether the trace of the worker's last item has more.
  bool has_more(int worker) const {
    const auto own = trace_of_.find(worker);
    return own != trace_of_.end() && traces_.contains(own->second);
  }

 private:
  struct OfTrace {
    std::vector<int> items;  // the next one last
    double cost = 0.0;       // of all of these
    int workers = 0;         // that have this trace
  };
  std::optional<int> choose() const;

  const StudyPlan& plan_;
  std::map<int, OfTrace> traces_;  // with items
  std::map<int, int> trace_of_;    // by worker
};

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

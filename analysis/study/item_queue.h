#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analysis/study/study_plan.h"

namespace kvloupe {

/// The items that wait, and who gets which. A worker stays with a trace while the trace has items,
/// so that few processes read the same file; then it gets the trace with the most work left that
/// nobody has; when every trace has a worker, it helps at the trace with the most work left. Within
/// a trace the dearest item comes first, of equal ones the first of the plan.
class ItemQueue {
 public:
  /// `waiting`: numbers of items in the plan. The plan must outlive the queue.
  ItemQueue(const StudyPlan& plan, const std::vector<int>& waiting);

  /// The next item of a worker, by its number in the plan; none if all are handed out.
  std::optional<int> next(int worker);

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

}  // namespace kvloupe

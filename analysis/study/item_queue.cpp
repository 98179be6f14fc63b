#include "analysis/study/item_queue.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

ItemQueue::ItemQueue(const StudyPlan& plan, const std::vector<int>& waiting) : plan_(plan) {
  const auto cost = [&](int item) { return plan.items.at(static_cast<std::size_t>(item)).cost; };
  for (const int item : waiting) {
    OfTrace& own = traces_[plan.items.at(static_cast<std::size_t>(item)).trace];
    own.items.push_back(item);
    own.cost += cost(item);
  }
  for (auto& [trace, own] : traces_) {
    std::sort(own.items.begin(), own.items.end(),
              [&](int a, int b) { return std::pair(cost(a), b) < std::pair(cost(b), a); });
  }
}

std::optional<int> ItemQueue::choose() const {
  const auto best =
      std::min_element(traces_.begin(), traces_.end(), [](const auto& a, const auto& b) {
        // A trace that nobody has comes before all others.
        return std::pair(a.second.workers > 0, -a.second.cost) <
               std::pair(b.second.workers > 0, -b.second.cost);
      });
  if (best == traces_.end()) return std::nullopt;
  return best->first;
}

std::optional<int> ItemQueue::next(int worker) {
  auto own = trace_of_.find(worker);
  if (own == trace_of_.end() || !traces_.contains(own->second)) {
    const std::optional<int> trace = choose();
    if (!trace) return std::nullopt;
    own = trace_of_.insert_or_assign(worker, *trace).first;
    ++traces_.at(*trace).workers;
  }
  const int trace = own->second;
  OfTrace& from = traces_.at(trace);
  const int item = from.items.back();
  from.items.pop_back();
  from.cost -= plan_.items[static_cast<std::size_t>(item)].cost;
  if (from.items.empty()) traces_.erase(trace);
  return item;
}

}  // namespace kvloupe

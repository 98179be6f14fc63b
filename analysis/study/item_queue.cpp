#include "analysis/study/item_queue.h"

#include <algorithm>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/typed_number.h"

namespace kvloupe {

ItemQueue::ItemQueue(const StudyPlan& plan, const std::vector<int>& waiting) : plan_(plan) {
  const auto cost = [&](int item) { return plan.items.at(static_cast<std::size_t>(item)).cost; };
  std::map<int, int> first_of;  // item, by source: its place among the source's items follows
  for (std::size_t i = 0; i < plan.items.size(); ++i)
    first_of.emplace(plan.items[i].trace, static_cast<int>(i));
  const auto place = [&](int item) {
    const int source = plan.items[static_cast<std::size_t>(item)].trace;
    return std::pair(item - first_of.at(source), source);
  };
  for (const int item : waiting) {
    const int source = plan.items.at(static_cast<std::size_t>(item)).trace;
    OfTrace& own = traces_[plan.first_of_context(source)];
    own.items.push_back(item);
    own.cost += cost(item);
  }
  for (auto& [trace, own] : traces_) {
    std::sort(own.items.begin(), own.items.end(), [&](int a, int b) {
      return std::pair(cost(a), place(b)) < std::pair(cost(b), place(a));
    });
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

Shard parse_shard(std::string_view text) {
  constexpr int kMost = 1'000'000;
  const auto parts = numbers_around<int>('/', text).value_or(std::pair{0, 0});
  const Shard shard{parts.first, parts.second};
  if (shard.number < 1 || shard.count < shard.number || shard.count > kMost) {
    throw UsageError("--shard " + in_quotes(text) +
                     ": write which part of how many, such as 1/10 to 10/10");
  }
  return shard;
}

std::vector<int> items_of_shard(const StudyPlan& plan, const std::vector<int>& items,
                                const Shard& shard) {
  // An item whose trace cannot be opened has no cost, and a place all the same.
  const auto cost = [&](int item) {
    return std::max(plan.items.at(static_cast<std::size_t>(item)).cost, 1.0);
  };
  double all = 0.0, before = 0.0;
  for (const int item : items) all += cost(item);
  std::vector<int> own;
  int place = 0, context = -1;
  for (const int item : items) {
    const double middle = (before + cost(item) / 2) / all;
    const int source = plan.items[static_cast<std::size_t>(item)].trace;
    const int first = plan.first_of_context(source);
    // All questions about a context go where the first one goes.
    if (first == source || first != context)
      place = std::min(static_cast<int>(middle * shard.count), shard.count - 1);
    context = first;
    if (place + 1 == shard.number) own.push_back(item);
    before += cost(item);
  }
  return own;
}

}  // namespace kvloupe

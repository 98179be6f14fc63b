#include "analysis/study/shard.h"

#include <algorithm>
#include <charconv>

#include "analysis/error.h"
#include "analysis/one_line.h"

namespace kvloupe {

Shard parse_shard(std::string_view text) {
  constexpr int kMost = 1'000'000;
  const auto number = [](std::string_view digits) {
    int value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, problem] = std::from_chars(digits.data(), end, value);
    return problem == std::errc() && stop == end ? value : 0;
  };
  const std::size_t slash = text.find('/');
  Shard shard;
  if (slash != std::string_view::npos) {
    shard = {number(text.substr(0, slash)), number(text.substr(slash + 1))};
  }
  if (slash == std::string_view::npos || shard.number < 1 || shard.count < shard.number ||
      shard.count > kMost) {
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
  for (const int item : items) {
    const double middle = (before + cost(item) / 2) / all;
    const int place = std::min(static_cast<int>(middle * shard.count), shard.count - 1);
    if (place + 1 == shard.number) own.push_back(item);
    before += cost(item);
  }
  return own;
}

}  // namespace kvloupe

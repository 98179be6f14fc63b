#pragma once

#include <array>
#include <cstddef>
#include <ranges>
#include <type_traits>

namespace kvloupe::test {

/// Every place of a table with so many rows, columns, …, in reading order:
/// `for (const auto& [layer, head] : cells(2, 4))`.
template <class... Counts>
auto cells(Counts... counts) {
  using Index = std::common_type_t<Counts...>;
  return std::views::iota(Index{0}, (static_cast<Index>(counts) * ...)) |
         std::views::transform([=](Index at) {
           const std::array<Index, sizeof...(counts)> sizes{static_cast<Index>(counts)...};
           std::array<Index, sizeof...(counts)> place;
           for (std::size_t axis = sizes.size(); axis-- > 0; at /= sizes[axis]) {
             place[axis] = at % sizes[axis];
           }
           return place;
         });
}

}  // namespace kvloupe::test

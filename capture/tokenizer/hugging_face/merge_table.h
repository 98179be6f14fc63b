#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe {

/// The result of merging two neighbouring pieces: the joined piece, and the rank of the merge.
struct Merge {
  std::uint32_t rank = 0;
  std::int32_t id = 0;
};

/// Merges by the ids of the two pieces. A hash table in one block of memory; see PieceTable.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges = 0);

  /// Sets the merge of a pair, replacing an earlier one. Ids are not negative.
  void set(std::int32_t left, std::int32_t right, Merge merge);
  /// Null if the two are not merged. Valid until the next change.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const Place& place = places_[place_of(left, right)];
    return place.left < 0 ? nullptr : &place.merge;
  }

 private:
  struct Place {
    std::int32_t left = -1;  // −1: free
    std::int32_t right = 0;
    Merge merge;
  };
  std::size_t place_of(std::int32_t left, std::int32_t right) const {
    const std::size_t mask = places_.size() - 1;
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
    // Fibonacci hashing: the upper half of the product depends on every bit of the key.
    std::size_t place = (key * 0x9E3779B97F4A7C15U >> 32U) & mask;
    while (places_[place].left >= 0 &&
           (places_[place].left != left || places_[place].right != right)) {
      place = (place + 1) & mask;
    }
    return place;
  }
  void grow();

  std::size_t taken_ = 0;
  std::vector<Place> places_;  // their number is a power of two; at most half are used
};

}  // namespace kvloupe

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// The pieces of a vocabulary, found by text or by index. All texts are in one block of memory, the
/// hash table in another, because a vocabulary may have 2^17 pieces and most look-ups miss the
/// processor's cache.
class PieceTable {
 public:
  struct Piece {
    std::string_view text;
    std::int32_t id = 0;
  };

  /// For this many pieces with this many bytes in total.
  explicit PieceTable(std::size_t pieces = 0, std::size_t bytes = 0);

  /// False, without a change, if the text already exists.
  bool add(std::string_view text, std::int32_t id);
  /// −1 where there is none.
  std::int32_t find(std::string_view text) const;

  std::size_t size() const { return entries_.size(); }
  /// In the order they were added. The text lives as long as the table is not changed.
  Piece piece(std::size_t index) const;

 private:
  struct Entry {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
    std::int32_t id = 0;
  };
  /// A place of the hash table; entry −1: free.
  struct Place {
    std::uint32_t hash = 0;
    std::int32_t entry = -1;
  };

  std::string_view text(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.size);
  }
  /// The place of this text, or the free place for it.
  std::size_t place_of(std::string_view text, std::uint32_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Place> places_;  // their number is a power of two; at most half are used
};

/// The result of merging two neighbouring pieces: the joined piece, and the rank of the merge.
struct PairMerge {
  std::uint32_t rank = 0;
  std::int32_t id = 0;
};

/// Merges by the ids of the two pieces. A hash table in one block of memory; see PieceTable.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges = 0);

  /// Sets the merge of a pair, replacing an earlier one. Ids are not negative.
  void set(std::int32_t left, std::int32_t right, PairMerge merge);
  /// Null if the two are not merged. Valid until the next change.
  const PairMerge* find(std::int32_t left, std::int32_t right) const {
    const Place& place = places_[place_of(left, right)];
    return place.left < 0 ? nullptr : &place.merge;
  }

 private:
  struct Place {
    std::int32_t left = -1;  // −1: free
    std::int32_t right = 0;
    PairMerge merge;
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

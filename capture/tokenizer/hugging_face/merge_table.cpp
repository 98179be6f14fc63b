#include "capture/tokenizer/hugging_face/merge_table.h"

#include <bit>

namespace kvloupe {

MergeTable::MergeTable(std::size_t merges) : places_(std::bit_ceil(2 * merges + 16)) {}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  if (2 * (taken_ + 1) > places_.size()) grow();
  Place& place = places_[place_of(left, right)];
  if (place.left < 0) ++taken_;
  place = {left, right, merge};
}

void MergeTable::grow() {
  std::vector<Place> before(2 * places_.size());
  before.swap(places_);
  for (const Place& place : before) {
    if (place.left >= 0) places_[place_of(place.left, place.right)] = place;
  }
}

}  // namespace kvloupe

#include "capture/tokenizer/hugging_face/piece_table.h"

#include <bit>
#include <functional>

namespace kvloupe {

namespace {

std::uint32_t hash_of(std::string_view text) {
  const std::uint64_t hash = std::hash<std::string_view>()(text);
  return static_cast<std::uint32_t>(hash ^ hash >> 32U);
}

}  // namespace

PieceTable::PieceTable(std::size_t pieces, std::size_t bytes)
    : places_(std::bit_ceil(2 * pieces + 16)) {
  bytes_.reserve(bytes);
  entries_.reserve(pieces);
}

std::size_t PieceTable::place_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t place = hash & mask;
  while (places_[place].entry >= 0) {
    const auto entry = static_cast<std::size_t>(places_[place].entry);
    if (places_[place].hash == hash && this->text(entries_[entry]) == text) break;
    place = (place + 1) & mask;
  }
  return place;
}

bool PieceTable::add(std::string_view text, std::int32_t id) {
  if (2 * (entries_.size() + 1) > places_.size()) grow();
  const std::uint32_t hash = hash_of(text);
  Place& place = places_[place_of(text, hash)];
  if (place.entry >= 0) return false;
  place = {hash, static_cast<std::int32_t>(entries_.size())};
  entries_.push_back(
      {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(text.size()), id});
  bytes_ += text;
  return true;
}

std::int32_t PieceTable::find(std::string_view text) const {
  const Place& place = places_[place_of(text, hash_of(text))];
  return place.entry < 0 ? -1 : entries_[static_cast<std::size_t>(place.entry)].id;
}

PieceTable::Piece PieceTable::piece(std::size_t index) const {
  const Entry& entry = entries_.at(index);
  return {text(entry), entry.id};
}

void PieceTable::grow() {
  std::vector<Place> before(2 * places_.size());
  before.swap(places_);
  const std::size_t mask = places_.size() - 1;
  for (const Place& place : before) {
    if (place.entry < 0) continue;
    std::size_t at = place.hash & mask;
    while (places_[at].entry >= 0) at = (at + 1) & mask;
    places_[at] = place;
  }
}

MergeTable::MergeTable(std::size_t merges) : places_(std::bit_ceil(2 * merges + 16)) {}

void MergeTable::set(std::int32_t left, std::int32_t right, PairMerge merge) {
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

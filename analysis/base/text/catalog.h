#pragma once

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>
#include <vector>

namespace kvloupe {

/// The entries of a catalogue: the project's own, then those that a program adds before anyone has
/// read the catalogue. Entries never move once they were read, so that pointers to them stay valid.
template <typename Entry>
class Catalog {
 public:
  explicit Catalog(std::vector<Entry> own) : entries_(std::move(own)) {}

  const std::vector<Entry>& read() {
    read_ = true;
    return entries_;
  }
  /// Without closing the catalogue.
  template <typename Condition>
  bool has(const Condition& condition) const {
    return std::any_of(entries_.begin(), entries_.end(), condition);
  }
  /// At the end. Throws std::logic_error once the catalogue was read.
  void add(Entry entry) {
    add(std::move(entry), [](const Entry&) { return false; });
  }
  /// Before the first entry of which `before` is true, else at the end.
  template <typename Before>
  void add(Entry entry, const Before& before) {
    if (read_) throw std::logic_error(entry.name + ": added after the catalogue was read");
    entries_.insert(std::find_if(entries_.begin(), entries_.end(), before), std::move(entry));
  }

 private:
  std::vector<Entry> entries_;
  std::atomic<bool> read_ = false;  // by any thread
};

}  // namespace kvloupe

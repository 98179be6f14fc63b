#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "analysis/numeric/splitmix.h"

namespace kvloupe {

/// Random numbers that follow from a seed alone, with every compiler and library.
class Draws {
 public:
  Draws(std::uint64_t seed, std::initializer_list<std::uint64_t> parts) : state_(seed) {
    for (const std::uint64_t part : parts) state_ = splitmix(state_ + part);
  }

  std::uint64_t next() { return splitmix_output(state_ += kSplitmixStep); }
  /// One of 0 … count − 1.
  std::size_t below(std::size_t count) { return next() % count; }
  int between(int lowest, int highest) {
    return lowest + static_cast<int>(below(static_cast<std::size_t>(highest - lowest) + 1));
  }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[below(list.size())];
  }
  /// `count` letters from `first` on, of the 26.
  std::string letters(char first, int count) {
    std::string word;
    for (int i = 0; i < count; ++i) word += static_cast<char>(first + static_cast<char>(below(26)));
    return word;
  }
  /// Puts `count` items, drawn without repetition, at the front of the list.
  template <typename Item>
  void draw_to_front(std::vector<Item>& list, std::size_t count) {
    for (std::size_t i = 0; i < count && i < list.size(); ++i)
      std::swap(list[i], list[i + below(list.size() - i)]);
  }
  template <typename Item>
  void shuffle(std::vector<Item>& list) {
    draw_to_front(list, list.size());
  }

 private:
  std::uint64_t state_;
};

}  // namespace kvloupe

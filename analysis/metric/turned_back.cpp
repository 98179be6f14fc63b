#include "analysis/metric/turned_back.h"

#include <cmath>
#include <utility>

namespace kvloupe {

namespace {
void append_turns(const Rope& rope, double position, std::vector<double>& turns) {
  for (std::size_t j = 0; j < rope.pairs(); ++j) {
    const double angle = rope.pair(j).frequency * position;
    turns.push_back(std::cos(angle));
    turns.push_back(std::sin(angle));
  }
}
}  // namespace

TurnedBack::TurnedBack(Rope rope) : rope_(std::move(rope)) {
  for (long step = 0; step < kSteps; ++step) {
    append_turns(rope_, static_cast<double>(step), steps_);
  }
}

template <typename Number>
void TurnedBack::turn_pairs(std::span<Number> row, long position, Cursor& cursor) const {
  const long first = position - position % kSteps;
  if (cursor.first != first) {
    cursor.first = first;
    cursor.turns.clear();
    append_turns(rope_, static_cast<double>(first), cursor.turns);
  }
  const std::size_t pairs = rope_.pairs();
  const double* const step = steps_.data() + static_cast<std::size_t>(position - first) * pairs * 2;
  const double* const base = cursor.turns.data();
  for (std::size_t j = 0; j < pairs; ++j) {
    const Rope::Pair pair = rope_.pair(j);
    const double cosine = base[2 * j] * step[2 * j] - base[2 * j + 1] * step[2 * j + 1];
    const double sine = base[2 * j + 1] * step[2 * j] + base[2 * j] * step[2 * j + 1];
    Number& a = row[static_cast<std::size_t>(pair.first)];
    Number& b = row[static_cast<std::size_t>(pair.second)];
    const double x = static_cast<double>(a), y = static_cast<double>(b);
    a = static_cast<Number>(x * cosine + y * sine);
    b = static_cast<Number>(y * cosine - x * sine);
  }
}

template void TurnedBack::turn_pairs(std::span<float>, long, Cursor&) const;
template void TurnedBack::turn_pairs(std::span<double>, long, Cursor&) const;

}  // namespace kvloupe

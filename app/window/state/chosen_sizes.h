#pragma once

#include <map>
#include <vector>

namespace kvloupe::window {

/// Sizes that a person gave by dragging borders. The window itself chooses the other sizes.
struct ChosenSizes {
  // Width of the side panels and height of the panel below, in units of the window's scale; 0: not
  // chosen. The sizes are wishes: a small window shows less, and panels do not fold because of a
  // wish.
  double left = 0.0, right = 0.0, bottom = 0.0;
  /// By the number of tiles: [tile] its share of the width of its row; 0: not chosen.
  std::map<int, std::vector<double>> tiles;
  bool operator==(const ChosenSizes&) const = default;
};

constexpr double kMostChosenSize = 10'000.0;  // units

}  // namespace kvloupe::window

#pragma once

#include <map>
#include <vector>

namespace kvloupe::window {

/// Sizes that a person gave by dragging borders. What has none is as large as the window finds fit.
struct ChosenSizes {
  // Width of the side panels and height of the panel below, in units of the window's scale; 0: not
  // chosen. As wished: a small window shows less of it, and nothing folds because of it.
  double left = 0.0, right = 0.0, bottom = 0.0;
  /// By the number of tiles: [tile] its share of the width of its row; 0: not chosen.
  std::map<int, std::vector<double>> tiles;
  bool operator==(const ChosenSizes&) const = default;
};

constexpr double kMostChosenSize = 10'000.0;  // units

}  // namespace kvloupe::window

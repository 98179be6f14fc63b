#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/figure/figure.h"

namespace kvloupe::figure {

/// A computed figure, with the settings it was made from in words: trace, model, policy, ...
struct MadeFigure {
  std::shared_ptr<const Figure> figure;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::shared_ptr<const Trace>> traces;  // none where made from an evaluation
  std::vector<Block> steps;                          // of the replay it shows; may be empty
  bool complete = true;  // false: made from replays that were still under way
};

}  // namespace kvloupe::figure

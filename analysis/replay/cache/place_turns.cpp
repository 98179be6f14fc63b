#include "analysis/replay/cache/place_turns.h"

namespace kvloupe {

void PlaceTurns::turn_last(const MatrixView& rows, std::span<const std::int32_t> tokens,
                           Matrix& turned) {
  turned = rows;
  const auto count = static_cast<std::size_t>(rows.rows());
  const auto width = static_cast<std::size_t>(rows.cols());
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t place = tokens.size() - count + r;
    const auto moved = static_cast<double>(place) - static_cast<double>(tokens[place]);
    if (moved != 0.0) rope_.turn(std::span(turned.data() + r * width, width), moved);
  }
}

}  // namespace kvloupe

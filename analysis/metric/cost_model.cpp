#include "analysis/metric/cost_model.h"

namespace kvloupe {

OperationCount keydiff_operations(double n, double d) {
  return {3.0 * n * d + d + n, 3.0 * n * d - n - 1.0, 2.0 * n + 2.0, n + 1.0};
}

std::optional<CostOrder> cost_order(std::string_view score) {
  static constexpr auto entries = [](const StepShape& s) { return s.entries; };
  static constexpr auto block_rows = [](const StepShape& s) { return s.entries * s.block; };
  static constexpr auto window_rows = [](const StepShape& s) { return s.entries * s.window; };
  static constexpr auto kept = [](const StepShape& s) { return s.entries - s.block; };
  static constexpr auto one = [](const StepShape&) { return 1.0; };
  static const CostOrder table[] = {
      {"keydiff", "O(N + B)", "O(N + B)", entries, entries},
      {"tova", "O(N + B)", "O(N + B)", entries, entries},
      {"h2o", "O(NB + B²)", "O(NB + B²)", block_rows, block_rows},
      {"snapkv", "O((N + B)L)", "O((N + B)L)", window_rows, window_rows},
      {"sink", "O(N)", "O(1)", kept, one},
  };
  for (const CostOrder& line : table) {
    if (line.policy == score) return line;
  }
  return std::nullopt;
}

}  // namespace kvloupe

#include "app/lesson/value_groups.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::lesson {

int index(const Value& value, int end) {
  const double at = number(value);
  return at >= 0.0 && at < static_cast<double>(end) && at == std::floor(at) ? static_cast<int>(at)
                                                                            : -1;
}

double median(std::vector<double> values) {
  if (values.empty()) return kNone;
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

std::vector<kvloupe::Block> blocks_of(const LessonState& s) {
  return replay_blocks(*s.trace, s.workspace.block, s.workspace.compression);
}

int step_of(const LessonState& s, const std::vector<kvloupe::Block>& blocks) {
  const int chosen = s.workspace.selection.step;
  if (chosen >= 0) return std::min(chosen, static_cast<int>(blocks.size()) - 1);
  int last = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].first < s.trace->run().prompt_length) last = static_cast<int>(i);
  }
  return last;
}

}  // namespace kvloupe::lesson

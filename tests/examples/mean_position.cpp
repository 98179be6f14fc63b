// mean_position: a measure of one file. Where in the prompt the retained entries lie.

#include "analysis/replay/measure/measure.h"
#include "tests/examples/examples.h"

namespace kvloupe::examples {

MeasureFamily mean_position() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Position";
  family.remark = "After the step's eviction, of the tokens so far.";
  family.scope = MeasureScope::step;
  family.measures = {
      {.name = "mean_position",
       .title = "Mean position of the retained",
       .formula = "mean over the retained of i / (tokens so far - 1)",
       .source = "an example of kvloupe's own",
       .share = true,
       .help = "Where in the text the retained entries lie: 0 its start, 1 its end."}};
  family.of_step = [](MeasuredStep& step, std::span<double> values) {
    const auto tokens = step.cache().tokens();
    const auto last = static_cast<double>(step.prefix() - 1);
    if (tokens.empty() || last <= 0.0) return;  // the value stays unknown: NaN
    double sum = 0.0;
    for (const std::int32_t token : tokens) sum += token / last;
    values[0] = sum / static_cast<double>(tokens.size());
  };
  return family;
}

}  // namespace kvloupe::examples

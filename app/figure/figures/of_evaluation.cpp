#include "app/figure/figures/of_evaluation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::figure {

FigureInfo evaluation_figure(std::string name, std::string title, std::string tooltip,
                             const char* verb) {
  FigureInfo info;
  info.name = std::move(name);
  info.title = std::move(title);
  info.tooltip = std::move(tooltip) + ". From the results of kvloupe-capture " + verb;
  info.needs.evaluation = true;
  info.needs.fewest_traces = 0;
  info.needs.most_traces = 0;
  info.unfit = why_no_evaluation;
  return info;
}

std::string why_no_evaluation(const Evaluation& evaluation) {
  if (evaluation.task == Evaluation::Task::rescue) {
    return "has the results of kvloupe-capture rescue; show figure rescue, or give results of "
           "kvloupe-capture eval";
  }
  if (evaluation.task == Evaluation::Task::study) {
    return "has the results of a study; show figure study-budget, study-ranks, study-heads, "
           "head-scatter, head-profile, study-prompts, study-layers or study-loops, or give "
           "results of kvloupe-capture eval";
  }
  return {};
}

std::string evaluated_budget(const FigureInput& input) {
  const Evaluation& evaluation = *input.evaluation;
  double tokens = 0.0;
  for (const EvaluationRun& run : evaluation.runs) {
    tokens += run.tokens / static_cast<double>(evaluation.runs.size());
  }
  constexpr int kLongest = 1 << 30;
  const int length = static_cast<int>(std::clamp(std::round(tokens), 1.0, double{kLongest}));
  return nearest_budget(evaluation, input.budget.resolve(length) / static_cast<double>(length));
}

}  // namespace kvloupe::figure

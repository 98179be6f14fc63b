#include "app/figure/figures/stage_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/replay/measure/measure_catalog.h"

namespace kvloupe::figure {

std::vector<ChoiceInfo> stage_choices() {
  return {
      word_choice("base", "Base",
                  "The policy that gets the two stages: snapkv(pool=max), as in the paper, alone "
                  "or with adakv",
                  {"snapkv", "adakv"}),
      word_choice("norm", "Norm", "Norm of the perturbation and of the second stage", {"l1", "l2"}),
      word_choice("query", "Query",
                  "The query that is measured: the 1st, 3rd or 5th token after the prompt (or the "
                  "last one there is), or the last token of the selected step",
                  {"1", "3", "5", "step"})};
}

StageComparison stage_comparison(const FigureInput& input) {
  StageComparison what;
  const bool adakv = input.choice("base") == "adakv";
  const std::string& norm = input.choice("norm");
  const std::string base = adakv ? "snapkv(pool=max)+adakv" : "snapkv(pool=max)";
  what.without = parse_policy(base);
  what.with = parse_policy(base + "+critical" + (norm == "l2" ? "(norm=l2)" : ""));
  what.measure = "perturbation_" + norm;
  what.symbol = norm == "l2" ? "ℒ (L2)" : "ℒ (L1)";
  const std::string& query = input.choice("query");
  const int generated = input.trace->run().generated;
  const int steps =
      static_cast<int>(replay_blocks(*input.trace, input.block, input.compression).size());
  if (query == "step" || generated == 0) {
    what.step = input.selection.step;
    what.at = fmt::format("last token of step {}", what.step);
  } else {
    const int token = std::min(std::stoi(query), generated);
    what.step = steps - generated + token - 1;
    what.at = fmt::format("token {} after the prompt", token);
  }
  return what;
}

std::vector<WantedReplay> wanted_of(const StageComparison& what) {
  return for_each_policy({what.without, what.with},
                         {.measures = {what.measure}, .steps = {what.step}});
}

std::vector<double> perturbations(const StageComparison& what, const Replay& replay) {
  const Measure& measure = require_measure(what.measure);
  std::vector<double> values;
  for (const HeadReplay& head : replay.heads) {
    const StepRecord& record = head.steps.at(static_cast<std::size_t>(what.step));
    for (int i = 0; i < static_cast<int>(record.query_heads.size()); ++i) {
      values.push_back(measure_at(measure, record, i));
    }
  }
  return values;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  long count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

std::string no_perturbation(const Trace& trace) {
  return trace.has_output_weight()
             ? std::string()
             : std::string(
                   "the trace has no output weights, which are needed for the perturbation");
}

}  // namespace kvloupe::figure

// Output error and effective members of KVMerger's merges against σ.

#include "analysis/base/text/unknown.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::sigma_sweep_figure {

namespace {

struct HeadNumbers {
  double error = kUnknown;    // ‖(A − A')V‖₂, mean over query heads and steps with merges
  double members = kUnknown;  // 1/Σw², mean over merges
};

HeadNumbers numbers_of(const HeadReplay& head) {
  const Measure& lost = require_measure("head_error_l2");
  double error = 0.0, members = 0.0;
  long errors = 0, merges = 0;
  bool merged = false;
  for (const StepRecord& step : head.steps) {
    merged = merged || !step.merges.empty();
    for (const MergeMeasures& one : step.merge_measures) {
      members += one.effective_members;
      ++merges;
    }
    if (!merged) continue;  // before the first merge nothing is lost
    for (int i = 0; i < static_cast<int>(step.query_heads.size()); ++i) {
      error += measure_at(lost, step, i);
      ++errors;
    }
  }
  return {errors > 0 ? error / static_cast<double>(errors) : kUnknown,
          merges > 0 ? members / static_cast<double>(merges) : kUnknown};
}

/// The policy with another σ; none where no part of it has one.
std::optional<PolicySpec> with_sigma(PolicySpec policy, double sigma) {
  bool found = false;
  for (SpecPart& part : policy.parts) {
    for (auto& [name, value] : part.arguments) {
      if (name != "sigma") continue;
      value = sigma;
      found = true;
    }
  }
  if (!found) return std::nullopt;
  return policy;
}

void add_lines(LinePanels::Panel& panel, int layer, const std::vector<double>& sigmas,
               const std::vector<std::vector<double>>& of_heads) {
  LinePanels::Line mean;
  mean.name = "mean";
  mean.marked = true;
  for (std::size_t i = 0; i < sigmas.size(); ++i) mean.points.push_back({sigmas[i], 0.0});
  double heads = 0.0;
  for (std::size_t h = 0; h < of_heads.size(); ++h) {
    LinePanels::Line line{.look = -1,
                          .thin = true,
                          .id = fmt::format("head {}", h),
                          .target = {.layer = layer, .head = static_cast<int>(h)}};
    for (std::size_t i = 0; i < sigmas.size(); ++i) {
      line.points.push_back({sigmas[i], of_heads[h][i]});
    }
    const bool whole = std::all_of(of_heads[h].begin(), of_heads[h].end(),
                                   [](double v) { return std::isfinite(v); });
    if (whole) {
      heads += 1.0;
      for (std::size_t i = 0; i < sigmas.size(); ++i) mean.points[i].y += of_heads[h][i];
    }
    panel.lines.push_back(std::move(line));
  }
  for (Point& point : mean.points) point.y = heads > 0.0 ? point.y / heads : kUnknown;
  panel.lines.push_back(std::move(mean));
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const int layer = input.selection.layer;
  const PolicySpec policy = chosen_policies(input).front();
  std::vector<double> sigmas = chosen_numbers(input, "sigma");
  std::sort(sigmas.begin(), sigmas.end());
  std::vector<WantedReplay> wanted;
  for (const double sigma : sigmas) {
    const std::optional<PolicySpec> one = with_sigma(policy, sigma);
    if (!one) {
      throw UsageError("policies=" + policy.text() +
                       ": has no parameter sigma; give a policy that merges with a kernel, such as "
                       "h2o+kvmerger(threshold=0.75)");
    }
    wanted.push_back({.policy = *one, .layers = {layer}, .measures = {"head_error_l2"}});
  }
  const auto replays = replays_of(input, wanted, progress);
  const auto heads = static_cast<std::size_t>(input.trace->layer_model(layer).num_kv_heads);
  std::vector<std::vector<double>> errors(heads), members(heads);
  ValueRange error_range, member_range;
  for (const auto& replay : replays) {
    for (std::size_t h = 0; h < heads; ++h) {
      const HeadNumbers numbers = numbers_of(head_of(*replay, layer, static_cast<int>(h)));
      errors[h].push_back(numbers.error);
      members[h].push_back(numbers.members);
      error_range.add(numbers.error);
      member_range.add(numbers.members);
    }
  }
  ValueRange x;
  x.add(sigmas);
  LinePanels::Panel first, second;
  first.title = "Output error";
  second.title = "Effective members";
  first.x = second.x = x_axis("σ", x.padded_log(), AxisScale::log);
  first.y = y_axis("‖(A − A′)V‖₂", error_range.from_zero());
  second.y = y_axis("1/Σw²", member_range.from_zero());
  add_lines(first, layer, sigmas, errors);
  add_lines(second, layer, sigmas, members);
  auto figure = line_panels("sigma", "value", {std::move(first), std::move(second)});
  figure->caption_text = fmt::format(
      "a, change of a head's output, and b, effective members of a merging set, against σ: {}, N = "
      "{}, every head of layer {} (thin) and their mean, over the steps from the first merge on.",
      policy.text(), format_count(replays.front()->budget), layer);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "sigma-sweep", "Choice of σ",
      "How KVMerger's σ (table 3 of the paper, which measures tasks) changes the output of the "
      "attention, ‖(A − A′)V‖₂ (definition 2.1), and the number of members that count, 1/Σw²: 1 if "
      "only the pivot counts",
      Topic::merging, compute, kTwoColumns);
  info.needs = {.head = true, .comparison = true};
  info.choices = {policies_choice("h2o+kvmerger"),
                  {"sigma",
                   "σ",
                   "Widths to try, separated by commas",
                   {"0.5,1,2,3,4,5,6,10,20"},
                   ChoiceKind::numbers,
                   1e-3,
                   1e6}};
  return info;
}

}  // namespace kvloupe::figure::sigma_sweep_figure

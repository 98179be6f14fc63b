// Cost of a policy by the paper's model, beside the time of its replay.

#include <chrono>

#include "analysis/base/text/unknown.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/published.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::cost_figure {

namespace {

constexpr int repetitions = 3;

/// Units of table 4 of one head: runtime summed over the steps that evict, memory of the largest.
struct Units {
  double runtime = 0.0;
  double memory = 0.0;
  double flops = 0.0;  // KeyDiff's count, eq. A.1
};

Units units_of(const HeadReplay& head, const std::vector<Block>& blocks, const PolicySpec& policy,
               int budget, int head_dim) {
  const auto order = cost_order(policy);
  if (!order) return {kUnknown, kUnknown, kUnknown};
  Units units;
  for (std::size_t s = 0; s < head.steps.size(); ++s) {
    const StepShape shape{static_cast<double>(head.steps[s].cache_size),
                          static_cast<double>(blocks[s].size())};
    if (shape.entries <= budget) continue;
    units.runtime += order->runtime_units(shape);
    units.memory = std::max(units.memory, order->memory_units(shape));
    if (order->operations == nullptr) continue;
    units.flops += order->operations(shape.entries, head_dim).flops();
  }
  return units;
}

/// Seconds of the policy's replay of the selected layer without metrics on one thread, the least of
/// a few; states are in memory.
double measure(const FigureInput& input, const PolicySpec& policy, Progress& progress) {
  ReplayRequest request{.policy = policy,
                        .budget = budget_entries(input.budget, *input.trace, policy),
                        .block = input.block,
                        .compression = input.compression,
                        .layers = {input.selection.layer},
                        .metrics = false,
                        .threads = 1,
                        .states = &input.replays->states()};
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    Progress part(progress, 1);
    const auto start = std::chrono::steady_clock::now();
    replay(*input.trace, request, part);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count());
  }
  return least;
}

std::string milliseconds(double seconds) { return format_number(1e3 * seconds, 2) + " ms"; }

Strips::Column column(std::string title, std::string label, std::vector<Strips::Mark> marks,
                      double room) {
  Strips::Column result{.title = std::move(title), .room = room};
  Strips::Series series;
  for (Strips::Mark& mark : marks) series.rows.push_back({std::move(mark)});
  ValueRange range = range_of({series});
  result.x = x_axis(std::move(label), range.padded_log(0.1), AxisScale::log);
  result.series.push_back(std::move(series));
  return result;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const bool timed = input.choice("time") == "measured";
  const std::vector<PolicySpec> policies = chosen_policies(input);
  auto figure = std::make_unique<Strips>();
  const int layer = input.selection.layer;
  const auto replays = replays_of(input, for_each_policy(policies, {.layers = {layer}}), progress);
  std::vector<Strips::Mark> runtime, memory, time;
  double flops = 0.0;
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const Replay& replay = *replays[p];
    const Units units =
        units_of(head_of(replay, layer, input.selection.head), replay.blocks, policies[p],
                 replay.budget, input.trace->layer_model(input.selection.layer).head_dim);
    if (units.flops > 0.0) flops = units.flops;
    const auto order = cost_order(policies[p]);
    figure->row_names.push_back(replay.policy);
    runtime.push_back({units.runtime, 0.5, {}, order ? std::string(order->runtime) : ""});
    memory.push_back({units.memory, 0.5, {}, order ? std::string(order->memory) : ""});
    if (!timed) continue;
    const double seconds = measure(input, policies[p], progress);
    time.push_back({1e3 * seconds, 0.5, {}, milliseconds(seconds)});
  }
  figure->columns.push_back(
      column("Runtime (table 4)", "Relative amount", std::move(runtime), 52.0));
  figure->columns.push_back(column("Memory (table 4)", "Relative amount", std::move(memory), 52.0));
  if (timed) figure->columns.push_back(column("Measured", "Time (ms)", std::move(time), 36.0));
  figure->y = name_axis(figure->row_names);
  figure->row_height = 17.0;
  figure->measure = "value";
  figure->row_measure = "policy";
  figure->caption_text = fmt::format(
      "Cost of evicting in one head over the trace, N = {}, block {}, by the orders of KeyDiff's "
      "table 4 without constants: runtime summed over the steps that evict, memory of the largest "
      "step. Policies that are not in the table have no mark.",
      format_count(replays.front()->budget), format_count(replays.front()->block));
  if (flops > 0.0) {
    figure->caption_text +=
        fmt::format(" KeyDiff's (6d + 18)n + d + 17 adds up to {} floating-point operations.",
                    format_number(flops));
  }
  if (timed) {
    figure->caption_text += fmt::format(
        " Measured: the replay of layer {}, all heads, on one thread, including the attention for "
        "the score, the fastest of {} runs.",
        layer, repetitions);
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "cost", "Cost of a policy",
      "The orders of KeyDiff's table 4 for the steps of this trace, and its count of (6d + 18)n + "
      "d + 17 operations per step (A.2.1), beside the measured time of the replay",
      Topic::comparisons, compute, kTwoColumns, 2.4);
  info.needs = {.head = true, .comparison = true};
  info.choices = {policies_choice(published_list({"keydiff", "tova", "h2o", "snapkv", "sink"})),
                  word_choice("time", "Time",
                              "Also measure the time: takes a while, and differs from run to run",
                              {"model", "measured"})};
  return info;
}

}  // namespace kvloupe::figure::cost_figure

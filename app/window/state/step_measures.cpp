#include "app/window/state/step_measures.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/replay/ask.h"
#include "analysis/replay/measure_replay.h"

namespace kvloupe::window {

namespace {
constexpr int kThreads = 2;  // the grid's and a head's
constexpr auto kRest = std::chrono::milliseconds(150);
constexpr auto kBetweenPartialGrids = std::chrono::milliseconds(50);
}  // namespace

StepMeasures::StepMeasures(std::shared_ptr<figure::ReplayService> replays,
                           std::function<void()> wake)
    : replays_(std::move(replays)), queue_(kThreads, std::move(wake)) {}

void StepMeasures::want_grid(const MeasuredReplay& of, const Measure& measure,
                             const GridSubject& subject) {
  // While a budget is dragged, each grid begun comes to something that can be seen.
  const bool patient = grid_.key().subject == subject;
  const auto work = [this, of, &measure](
                        Progress& progress,
                        const job::Computed<GridValues, GridKey>::Publish& publish) {
    const ModelInfo& model = of.trace->model();
    GridValues grid = no_values(model.num_layers, model.num_kv_heads);
    MeasureRequest request;
    request.measures = {measure.info->name};
    request.steps = {of.step};
    request.background = true;
    request.states = &replays_->states();
    if (measure.family->scope == MeasureScope::queries) {
      const Replay measured = measure_replay(*of.trace, *of.replay, request, progress);
      for (const HeadReplay& head : measured.heads) {
        grid.at(head.layer, head.head) = measure_of(measure, head);
      }
      find_limits(grid);
      return grid;
    }
    auto last = std::chrono::steady_clock::now();
    measure_replay(*of.trace, *of.replay, request, progress,
                   [&](const std::vector<HeadReplay>& heads) {
                     for (const HeadReplay& head : heads) {
                       grid.at(head.layer, head.head) =
                           measure_at(measure, head.steps[static_cast<std::size_t>(of.step)]);
                     }
                     const auto now = std::chrono::steady_clock::now();
                     if (now - last < kBetweenPartialGrids) return;
                     last = now;
                     find_limits(grid);
                     publish(grid);
                   });
    find_limits(grid);
    return grid;
  };
  grid_.request(queue_, {subject, of.key}, work, patient ? kRest : std::chrono::milliseconds(0));
}

std::shared_ptr<const GridValues> StepMeasures::grid(const GridSubject& subject) const {
  return grid_.value_key().subject == subject ? grid_.value() : nullptr;
}

void StepMeasures::want_whole(int policy, const MeasuredReplay& of) {
  const auto work = [this, of](Progress& progress, const auto&) {
    WholeModel whole;
    whole.asked = asked_first(of.trace->tokens(), of.trace->run());
    const AskOptions options{0, true, &replays_->states()};
    const AskedReplay answer = ask(*of.trace, *of.replay, whole.asked, options, progress);
    whole.queries = static_cast<int>(answer.queries.size());
    whole.change = answer.residual_change;
    whole.worst_error = answer.worst_layer_error;
    const auto worst = std::max_element(answer.layer_errors.begin(), answer.layer_errors.end());
    if (!std::isnan(whole.worst_error)) {
      whole.worst_layer = static_cast<int>(worst - answer.layer_errors.begin());
    }
    return whole;
  };
  wholes_[policy].request(queue_, of.key, work, kRest);
}

void StepMeasures::want_head(int policy, const MeasuredReplay& of, int layer, int head) {
  const HeadKey key{of.key, layer, head, of.step};
  heads_[policy].request(queue_, key, [this, of, layer, head](Progress& progress, const auto&) {
    MeasureRequest request;
    for (const Measure& measure : all_measures()) {
      if (!measure.info->label.empty()) request.measures.push_back(measure.info->name);
    }
    request.steps = {of.step};
    request.layers = {layer};
    request.head = head;
    request.states = &replays_->states();
    const Replay measured = measure_replay(*of.trace, *of.replay, request, progress);
    return measured.heads.front().steps[static_cast<std::size_t>(of.step)];
  });
}

bool StepMeasures::computing() const {
  if (computing_grid()) return true;
  for (const auto& whole : wholes_) {
    if (!(whole.key() == figure::ReplayKey()) && whole.computing()) return true;
  }
  for (const auto& head : heads_) {
    if (!(head.key() == HeadKey()) && head.computing()) return true;
  }
  return false;
}

}  // namespace kvloupe::window

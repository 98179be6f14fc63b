#include "app/window/state/step_measures.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "analysis/measure/measure_catalog.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/measure_replay.h"

namespace kvloupe::window {

namespace {
constexpr int kThreads = 2;  // the whole model's and a head's
constexpr auto kRest = std::chrono::milliseconds(150);
}  // namespace

StepMeasures::StepMeasures(std::shared_ptr<figure::ReplayService> replays,
                           std::function<void()> wake)
    : replays_(std::move(replays)), queue_(kThreads, std::move(wake)) {}

void StepMeasures::want_whole(int policy, const MeasuredReplay& of) {
  const auto work = [this, of](Progress& progress, const auto&) {
    WholeModel whole;
    whole.asked = asked_first(of.trace->tokens(), of.trace->run());
    const AskOptions options{0, true, &replays_->states()};
    const AskedReplay answer = ask(*of.trace, *of.replay, whole.asked, options, progress);
    whole.queries = static_cast<int>(answer.queries.size());
    whole.change = answer.residual_change;
    whole.worst_error = answer.worst_layer_error;
    if (!std::isnan(whole.worst_error)) whole.worst_layer = answer.worst_layer();
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
  for (const auto& whole : wholes_) {
    if (!(whole.key() == figure::ReplayKey()) && whole.computing()) return true;
  }
  for (const auto& head : heads_) {
    if (!(head.key() == HeadKey()) && head.computing()) return true;
  }
  return false;
}

}  // namespace kvloupe::window

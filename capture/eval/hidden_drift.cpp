#include "capture/eval/hidden_drift.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace kvloupe {

namespace {

constexpr double kTiny = 1e-300;  // norms below are none

/// Tokens from `first` to before `end` that both have.
struct Overlap {
  Overlap(const HiddenStates& states, int from, const at::Tensor& hidden)
      : first(std::max(from, states.first())),
        end(std::min(from + static_cast<int>(hidden.size(1)), states.first() + states.count())) {}
  bool empty() const { return first >= end; }
  int first, end;
};

/// As a results file has it: more digits would say nothing, but there are many of these numbers.
double six_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::strtod(text, nullptr);
}

}  // namespace

HiddenStates::HiddenStates(const Transformer& model, int first, int count)
    : first_(first),
      states_(at::empty({model.config().num_layers, count, model.config().hidden_size},
                        model.options().dtype().toScalarType())) {}

std::int64_t HiddenStates::bytes(const Transformer& model, int count) {
  const auto size = static_cast<std::int64_t>(model.options().dtype().itemsize());
  return model.config().num_layers * count * model.config().hidden_size * size;
}

void HiddenStates::keep(int layer, int first, const at::Tensor& hidden) {
  const Overlap own(*this, first, hidden);
  if (own.empty()) return;
  states_[layer]
      .slice(0, own.first - first_, own.end - first_)
      .copy_(hidden[0].slice(0, own.first - first, own.end - first));
}

at::Tensor HiddenStates::rows(int layer, int first, int m) const {
  return states_[layer].slice(0, first - first_, first - first_ + m);
}

HiddenDrift::HiddenDrift(const Transformer& model, const HiddenStates& full)
    : model_(model), full_(full), layers_(static_cast<std::size_t>(model.config().num_layers)) {}

void HiddenDrift::Sums::add(const at::Tensor& other, const at::Tensor& full) {
  const at::Tensor a = other.to(at::kCPU, at::kDouble);
  const at::Tensor b = full.to(at::kCPU, at::kDouble);
  const at::Tensor apart = (a - b).square().sum(-1);
  const at::Tensor norm_a = a.square().sum(-1).sqrt();
  const at::Tensor norm_b = b.square().sum(-1).sqrt();
  distance += (apart.sqrt() / norm_b.clamp_min(kTiny)).sum().item<double>();
  // 1 − cos by the law of cosines: exactly 0 for equal states, and small ones do not cancel.
  const at::Tensor turned = (apart - (norm_a - norm_b).square()).clamp_min(0.0);
  cosine += (turned / (2.0 * norm_a * norm_b).clamp_min(kTiny)).sum().item<double>();
}

void HiddenDrift::add(int layer, int first, const at::Tensor& hidden) {
  const Overlap both(full_, first, hidden);
  if (both.empty()) return;
  const at::Tensor other = hidden[0].slice(0, both.first - first, both.end - first);
  const at::Tensor full = full_.rows(layer, both.first, both.end - both.first);
  layers_[static_cast<std::size_t>(layer)].add(other, full);
  if (layer + 1 < static_cast<int>(layers_.size())) return;
  normed_.add(model_.last_norm(other), model_.last_norm(full.to(other.device())));
}

void HiddenDrift::enter_means(EvaluationRun& run) const {
  const auto mean = [&](double sum) { return six_digits(sum / full_.count()); };
  for (const Sums& layer : layers_) {
    run.hidden.layers.push_back(mean(layer.distance));
    run.hidden_cosine.layers.push_back(mean(layer.cosine));
  }
  run.hidden.normed = mean(normed_.distance);
  run.hidden_cosine.normed = mean(normed_.cosine);
}

}  // namespace kvloupe

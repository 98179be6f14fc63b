// epikv: tokens at which the residual stream moves far in a middle layer, but not in a later one.

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/whole_pass.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
constexpr double kLeastDeviation = 1e-6;  // added to a deviation, as in the authors' code

/// How far the last of these numbers is from their mean, in their deviations; 0 for fewer than two.
double last_z(std::span<const float> window) {
  if (window.size() < 2) return 0.0;
  const auto count = static_cast<double>(window.size());
  double mean = 0.0, variance = 0.0;
  for (const float x : window) mean += static_cast<double>(x) / count;
  for (const float x : window) {
    const double apart = static_cast<double>(x) - mean;
    variance += apart * apart / count;
  }
  return (static_cast<double>(window.back()) - mean) / (std::sqrt(variance) + kLeastDeviation);
}

/// A layer of the model that is named by its number or as a share of the layers.
int layer_of(const SpecPart& part, const char* name, const ModelInfo& model) {
  return part.share(name, model.num_layers);
}

class EpiKvScore : public Score {
 public:
  EpiKvScore(const SpecPart& part, const LayerContext& context)
      : part_(part),
        context_(context),
        a_(layer_of(part, "a", context.model)),
        b_(layer_of(part, "b", context.model)),
        window_(part.count("window")),
        recent_(std::min(part.count("recent"), context.budget / 4)) {}

  Protection protection() const override { return {.window = recent_}; }

  /// Fills what the tokens so far have as their scores; these do not change.
  void prepare(const StepView& view, int /*budget*/) override {
    const WholePass& pass = whole_pass(part_, context_);
    const std::span<const float> a = pass.residual_change(a_), b = pass.residual_change(b_);
    for (int token = static_cast<int>(scores_.size()); token < view.block.end; ++token) {
      // The prompt and what the model writes have windows of their own; the first token of all has
      // no change.
      const int begin = token >= context_.prompt_length ? context_.prompt_length : 1;
      const int first = std::max(begin, token - window_ + 1);
      const auto count = static_cast<std::size_t>(std::max(token - first + 1, 0));
      const auto at = static_cast<std::size_t>(first);
      scores_.push_back(
          static_cast<float>(last_z(a.subspan(at, count)) - last_z(b.subspan(at, count))));
    }
  }

  std::vector<float> score(const StepView& view, int head) override {
    std::vector<float> scores;
    for (const std::int32_t token : view.caches[static_cast<std::size_t>(head)].tokens) {
      scores.push_back(scores_[static_cast<std::size_t>(token)]);
    }
    return scores;
  }

 private:
  SpecPart part_;
  LayerContext context_;
  int a_;
  int b_;
  int window_;
  int recent_;
  std::vector<float> scores_;  // by token
};

void check_layers(const SpecPart& part, const ModelInfo& model) {
  for (const char* name : {"a", "b"}) {
    const int layer = layer_of(part, name, model);
    if (layer < model.num_layers) continue;
    throw UsageError("policy: epikv: " + std::string(name) + "=" + std::to_string(layer) +
                     ": the model has layers 0 to " + std::to_string(model.num_layers - 1));
  }
}

}  // namespace

void epikv(PolicyEntry& entry) {
  entry.summary =
      "tokens at which the residual stream moves far in a middle layer, but not in a later one";
  entry.traits.reads_queries = false;
  entry.traits.reads_prompt_end = true;
  entry.traits.reads_pass = true;
  entry.traits.reads_residual = true;
  entry.formula =
      "score_t = z(a_t) - z(b_t), a_t = ‖x_t - x_(t-1)‖₂ of the residual stream x after layer a, "
      "b_t after layer b; z: less the mean of the last window tokens up to t, over their standard "
      "deviation + 1e-6; 0 where there are fewer than two. Windows do not reach from the written "
      "tokens into the prompt. The last recent entries, at most a quarter of the budget, are "
      "always "
      "kept. One set for all heads and layers";
  entry.source = "EpiKV (2026, arXiv 2606.26472), as in its code (the detrended score)";
  entry.needs =
      "the change of the residual stream from token to token in two layers, which the trace holds; "
      "in a running model decisions after the whole pass";
  entry.work = "2 D operations per token, and 4 window additions";
  entry.differences =
      "the paper keeps the prompt: add protect_prompt; without it the first token, an attention "
      "sink, leaves like others. It names the layers of models with 32: epikv(a=10,b=21); shares "
      "fit any depth. The code does not score the prompt; here its own windows do. Its reserve for "
      "values of a large range and its variant over lagged keys are left out";
  entry.parameters = {
      share_parameter("a", Percent{31.25}, 0, 1e6,
                      "the middle layer, from 0: a number, or a share of the layers"),
      share_parameter("b", Percent{65.625}, 0, 1e6, "the later layer: the same"),
      count_parameter("window", 64.0, 2, 1e6, "tokens up to its own that a token is compared with"),
      count_parameter("recent", 128.0, 0, 1e6,
                      "entries at the end that are always kept, at most a quarter of the budget")};
  entry.variants = {{"the paper, 32 layers", "epikv(a=10,b=21)+protect_prompt"}};
  entry.own_protection = [](const SpecPart& part) {
    return OwnProtection{.last_entries = Percent{part.count("recent") > 0 ? 25.0 : 0.0}};
  };
  entry.builder = ScoreBuilder{made_of<EpiKvScore>, ScoreScale::signed_own,
                               [](const SpecPart&) { return true; }};
  entry.limits = [](const SpecPart& part, const ModelInfo& model, int, int) {
    check_layers(part, model);
  };
}

}  // namespace kvloupe::policies

#include "trainer/trainer.h"

#include <torch/types.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <vector>

#include "analysis/error.h"
#include "trainer/loss.h"
#include "trainer/measure.h"

namespace kvloupe::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Batch make_batch(const Corpus& corpus, const Stage& stage, std::uint64_t step, at::Device device) {
  const std::int64_t length = stage.length;
  at::Tensor ids = at::empty({stage.sequences, length}, at::kLong);
  at::Tensor roles = at::empty({stage.sequences, length}, at::kLong);
  auto* id = ids.data_ptr<std::int64_t>();
  auto* role = roles.data_ptr<std::int64_t>();
  for (int row = 0; row < stage.sequences; ++row) {
    // A step has at most 65 536 sequences (see the recipe's limits).
    const auto index = (step << 16) + static_cast<std::uint64_t>(row);
    const Sequence sequence = corpus.sequence(index, stage.length, stage.mix);
    for (std::size_t t = 0; t < sequence.ids.size(); ++t) {
      *id++ = sequence.ids[t];
      *role++ = static_cast<std::int64_t>(sequence.roles[t]);
    }
  }
  return {ids.to(device), roles.to(device)};
}

std::string csv_line(const LogLine& line) {
  std::ostringstream out;
  out << line.step << ',' << line.length << ',' << std::setprecision(4) << line.rate << ','
      << line.loss_text << ',' << line.loss_quoted << ',' << line.loss_answer << ','
      << line.quoted_right << ',' << line.answer_right << ',' << line.gradient_norm << ','
      << line.seconds_per_step << ',' << line.rest_cost << ',' << line.resting << ','
      << line.resting_value << ',' << line.look_back_cost << ',' << line.looking_back;
  return out.str();
}

constexpr const char* kHeader =
    "step,length,rate,loss_text,loss_quoted,loss_answer,quoted_right,answer_right,gradient_norm,"
    "seconds_per_step,rest_cost,resting,resting_value,look_back_cost,looking_back,needle_256,"
    "needle_512,four_needles_512,sink_head_share,strongest_sink";

/// Retrieval and sinks on fresh prompts, as five more columns.
std::string measure_line(const Transformer& model, const Recipe& recipe, at::Device device) {
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, recipe.seed);
  std::ostringstream out;
  out << std::setprecision(3);
  out << ',' << needle_accuracy(model, corpus, {.length = 256, .needles = 1, .prompts = 32}, device)
      << ',' << needle_accuracy(model, corpus, {.length = 512, .needles = 1, .prompts = 16}, device)
      << ',' << needle_accuracy(model, corpus, {.length = 512, .needles = 4, .prompts = 8}, device);
  const SinkReport sinks = measure_sinks(model, corpus.needle_prompt(0, 512, 1).ids, device);
  out << ',' << sinks.sink_head_share() << ',' << sinks.strongest();
  return out.str();
}

}  // namespace

TrainingState train(const Recipe& recipe, const TrainOptions& options,
                    const std::function<void(const std::string&)>& on_line) {
  const std::filesystem::path folder(options.folder);
  std::filesystem::create_directories(folder);
  const std::string checkpoint = (folder / "checkpoint.pt").string();
  const bool resumed = std::filesystem::exists(checkpoint);
  TrainingState state = resumed ? load_state(recipe, checkpoint, options.device)
                                : initial_state(recipe, options.device);
  if (!resumed && !options.start.empty()) start_from(state, options.start);
  std::ofstream log(folder / "log.csv", resumed ? std::ios::app : std::ios::trunc);
  if (!log) throw FileError((folder / "log.csv").string(), "cannot be written");
  const auto say = [&](const std::string& line) {
    log << line << std::endl;
    if (on_line) on_line(line);
  };
  if (!resumed) say(kHeader);

  const Transformer model(state.config, state.weights());
  const Vocabulary vocabulary;
  const Corpus corpus(vocabulary, recipe.seed);
  const std::int64_t total = recipe.total_steps();
  const Clock::time_point begin = Clock::now();

  at::Tensor sums = at::zeros({3, 3}, at::TensorOptions().device(options.device).dtype(at::kFloat));
  at::Tensor norms = at::zeros({}, sums.options());
  at::Tensor resting = at::zeros({}, sums.options());
  at::Tensor resting_value = at::zeros({}, sums.options());
  at::Tensor looking_back = at::zeros({}, sums.options());
  Clock::time_point line_begin = Clock::now();
  std::int64_t line_steps = 0;
  bool stop = false;
  while (state.step < total && !stop) {
    const Stage& stage = recipe.stage(state.step);
    const double rate = recipe.rate(state.step);
    const Batch batch =
        make_batch(corpus, stage, static_cast<std::uint64_t>(state.step), options.device);
    const AttentionCosts costs{.rest = recipe.rest.cost.at(state.step),
                               .small_value = recipe.rest.small_value,
                               .look_back = recipe.look_back.cost.at(state.step),
                               .look_back_tokens = recipe.look_back.tokens};
    const StepLoss result = step_loss(model, batch, stage.weights, costs, options.mixed_precision);
    result.loss.backward();
    norms += update(state, recipe.optimizer, rate, stage);
    sums += result.sums;
    resting += result.resting;
    resting_value += result.value;
    looking_back += result.looking_back;
    ++line_steps;
    stop = state.step == options.stop_after ||
           (options.seconds > 0.0 && seconds_since(begin) > options.seconds);
    const bool last = state.step == total || stop;

    if (last || state.step % options.log_every == 0) {
      const at::Tensor host = sums.cpu();
      const auto* value = host.data_ptr<float>();
      const auto mean = [&](int role, int column) {
        return value[role * 3 + column] / std::max(1.0F, value[role * 3]);
      };
      LogLine line{state.step, stage.length, rate,       mean(0, 1),
                   mean(1, 1), mean(2, 1),   mean(1, 2), mean(2, 2)};
      line.gradient_norm = norms.item<double>() / static_cast<double>(line_steps);
      line.rest_cost = costs.rest;
      line.resting = resting.item<double>() / static_cast<double>(line_steps);
      line.resting_value = resting_value.item<double>() / static_cast<double>(line_steps);
      line.look_back_cost = costs.look_back;
      line.looking_back = looking_back.item<double>() / static_cast<double>(line_steps);
      line.seconds_per_step = seconds_since(line_begin) / static_cast<double>(line_steps);
      if (!std::isfinite(line.loss_text) || !std::isfinite(line.gradient_norm)) {
        throw WorkError(
            "the loss at step " + std::to_string(state.step) +
            " is not a number; lower the learning rate and start again from the checkpoint");
      }
      std::string text = csv_line(line);
      if (options.measure_every > 0 && (last || state.step % options.measure_every == 0)) {
        text += measure_line(model, recipe, options.device);
      } else {
        text += ",,,,,";
      }
      say(text);
      sums.zero_();
      norms.zero_();
      resting.zero_();
      resting_value.zero_();
      looking_back.zero_();
      line_begin = Clock::now();
      line_steps = 0;
    }
    if (last || state.step % options.save_every == 0) {
      save_state(state, checkpoint);
      export_model(state, recipe, options.folder);
    }
  }
  return state;
}

}  // namespace kvloupe::train

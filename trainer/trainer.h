#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trainer/training_state.h"

namespace kvloupe::train {

/// The device and settings that a run computes with; not part of the recipe.
struct TrainOptions {
  std::string folder;  // gets log.csv, checkpoint.pt and the exported model
  std::string start;   // model folder with the first weights; empty: drawn from the seed
  at::Device device = at::kCPU;
  bool mixed_precision = true;       // bfloat16 matrix products
  std::int64_t stop_after = -1;      // leave after this step as if interrupted; -1: never
  std::int64_t log_every = 20;       // steps
  std::int64_t save_every = 200;     // checkpoint and export
  std::int64_t measure_every = 200;  // retrieval and sinks; 0: never
  double seconds = 0.0;              // leave, with a checkpoint, after this time; 0: never
};

/// One line of the log: means over the steps since the previous line.
struct LogLine {
  std::int64_t step = 0;
  int length = 0;
  double rate = 0.0;
  double loss_text = 0.0;
  double loss_quoted = 0.0;
  double loss_answer = 0.0;
  double quoted_right = 0.0;  // share of quoted tokens that were the likeliest
  double answer_right = 0.0;  // the same for answers
  double gradient_norm = 0.0;
  double seconds_per_step = 0.0;
  double rest_cost = 0.0;  // of the line's last step; see Rest
  double resting = 0.0;    // attention on token 0: mean of layers, query heads and later queries
  double resting_value = 0.0;   // a₀ |v₀|² / mean |v|²: mean of layers and key heads
  double look_back_cost = 0.0;  // of the line's last step; see LookBack
  double looking_back = 0.0;    // attention on the tokens of LookBack; 0 without that cost
};

/// Trains from the folder's checkpoint, or from the seed if there is none, until the recipe's last
/// step. Appends to FOLDER/log.csv, calls `on_line` for every line, and exports the model. Throws
/// FileError for files, WorkError if the loss is no longer a number.
TrainingState train(const Recipe& recipe, const TrainOptions& options,
                    const std::function<void(const std::string&)>& on_line = {});

}  // namespace kvloupe::train

#pragma once
// Everything a training run needs to go on exactly where it stopped. There is no other random
// state: the data follow from (seed, step), the first weights from the seed.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "capture/model/transformer.h"
#include "capture/train/recipe.h"

namespace kvloupe::train {

/// All parameters lie in one flat float32 tensor, the weights are views of it, and so are their
/// gradients: the optimiser is a few operations on whole vectors.
struct TrainingState {
  ModelConfig config;
  at::Tensor parameters;     // [P]
  at::Tensor gradients;      // [P], not saved
  at::Tensor first_moment;   // [P]
  at::Tensor second_moment;  // [P]
  at::Tensor decayed;        // [P] 1 for matrices, 0 for norms; not saved
  std::int64_t step = 0;     // steps done

  /// The weights as views, asking for gradients that accumulate in `gradients`.
  Weights weights() const;
};

/// Normal weights of deviation 0.02, those that write into the residual stream divided by
/// √(2·layers); norms one. Drawn on the CPU, so that every device starts alike.
TrainingState initial_state(const Recipe& recipe, at::Device device);

/// Writes PATH through a temporary file beside it. Throws FileError.
void save_state(const TrainingState& state, const std::string& path);
/// Throws FileError where the file is missing, broken or of another model.
TrainingState load_state(const Recipe& recipe, const std::string& path, at::Device device);

/// One AdamW step from `gradients`, clipped, with the rate and weight decay of this step; counts
/// the step and clears the gradients. Returns the gradient's norm before clipping as a scalar on
/// the device.
at::Tensor adamw_step(TrainingState& state, const OptimizerSettings& settings, double rate,
                      double weight_decay);

/// Writes config.json, model.safetensors (bfloat16) and tokenizer.model into a folder. Throws
/// FileError.
void export_model(const TrainingState& state, const Recipe& recipe, const std::string& folder);

}  // namespace kvloupe::train

#pragma once
// Everything that a training run needs to continue exactly where it stopped. There is no other
// random state: the data follow from (seed, step), the first weights from the seed.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "capture/model/transformer.h"
#include "trainer/recipe.h"

namespace kvloupe::train {

/// All parameters are in one flat float32 tensor; the weights are views of it, and so are their
/// gradients. So the optimiser consists of a few operations on whole vectors.
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

/// Normal weights with the recipe's deviation (for weights that write into the residual stream
/// divided by √(2·layers)); norms are one. Drawn on the CPU, so that every device starts with the
/// same weights.
TrainingState initial_state(const Recipe& recipe, at::Device device);

/// Replaces the first weights by those of a model folder. Throws FileError if they cannot be read,
/// WorkError for a model of another shape.
void start_from(TrainingState& state, const std::string& model_folder);

/// Writes PATH through a temporary file beside it. Throws FileError.
void save_state(const TrainingState& state, const std::string& path);
/// Throws FileError if the file is missing, broken or belongs to another model.
TrainingState load_state(const Recipe& recipe, const std::string& path, at::Device device);

/// One step from the clipped `gradients`, with the rate and weight decay of this step; counts the
/// step and clears the gradients. AdamW; or, for the matrices of the layers if `orthogonal` is
/// above 0, Muon (Jordan 2024): the direction of the momentum with all singular values set to one,
/// times the rate and orthogonal·√(the matrix's longer side); 0.2 gives it the length of Adam's
/// steps (Liu et al. 2025). Circuits of several layers form in fewer steps this way, because their
/// gradients begin small in all but a few directions. Returns the gradient's norm before clipping
/// as a scalar on the device.
at::Tensor update(TrainingState& state, const OptimizerSettings& settings, double rate,
                  const Stage& stage);

/// Writes config.json, model.safetensors (bfloat16) and tokenizer.model into a folder. Throws
/// FileError.
void export_model(const TrainingState& state, const Recipe& recipe, const std::string& folder);

}  // namespace kvloupe::train

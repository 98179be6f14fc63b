#include "trainer/training_state.h"

#include <torch/serialize.h>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "capture/checkpoint/safetensors.h"
#include "capture/model/load_transformer.h"
#include "tests/capture/whole_model.h"
#include "trainer/random.h"
#include "trainer/tokenizer_model.h"

namespace kvloupe::train {
namespace {

std::int64_t count(const WeightShape& weight) {
  std::int64_t total = 1;
  for (const std::int64_t size : weight.shape) total *= size;
  return total;
}

ModelConfig config_of(const Recipe& recipe) {
  return parse_model_config(model_config_json(recipe.model, Vocabulary().size()), "recipe");
}

/// Two normal numbers at a time (Box, Muller 1958).
void fill_normal(float* begin, std::int64_t size, double deviation, Random& random) {
  for (std::int64_t i = 0; i < size; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform())) * deviation;
    const double angle = 6.283185307179586 * random.uniform();
    begin[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < size) begin[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

/// Allocates the tensors that are not saved.
void complete(TrainingState& state) {
  state.gradients = at::zeros_like(state.parameters);
  at::Tensor decayed = at::zeros({state.parameters.size(0)}, at::kFloat);
  std::int64_t offset = 0;
  for (const WeightShape& weight : weight_shapes(state.config)) {
    if (weight.shape.size() > 1) decayed.slice(0, offset, offset + count(weight)).fill_(1.0);
    offset += count(weight);
  }
  state.decayed = decayed.to(state.parameters.device());
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const WeightShape& weight : weight_shapes(config)) total += count(weight);
  return total;
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw FileError(path.string(), "cannot be written; check free space and permissions");
}

/// The matrix with its singular values brought near one: five Newton-Schulz steps with the
/// coefficients of Jordan (2024).
at::Tensor with_unit_singular_values(const at::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / (x.norm() + 1e-12);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor square = at::mm(x, x.t());
    x = 3.4445 * x + at::mm(-4.7750 * square + 2.0315 * at::mm(square, square), x);
  }
  return tall ? x.t() : x;
}

/// Replaces the direction of the layers' matrices by that of the momentum, looked ahead by one
/// gradient, made orthogonal; root mean square `size`.
void orthogonalise(const TrainingState& state, at::Tensor& direction, double size) {
  std::int64_t offset = 0;
  for (const WeightShape& weight : weight_shapes(state.config)) {
    const std::int64_t end = offset + count(weight);
    const bool layer_matrix =
        weight.shape.size() == 2 && weight.name.find("layers.") != std::string::npos;
    if (layer_matrix) {
      const at::Tensor momentum = state.first_moment.slice(0, offset, end)
                                      .add(state.gradients.slice(0, offset, end), 0.1)
                                      .view(weight.shape);
      const double length =
          size * std::sqrt(static_cast<double>(std::max(weight.shape[0], weight.shape[1])));
      direction.slice(0, offset, end)
          .copy_((with_unit_singular_values(momentum) * length).reshape({-1}));
    }
    offset = end;
  }
}

}  // namespace

Weights TrainingState::weights() const {
  Weights weights;
  std::int64_t offset = 0;
  for (const WeightShape& weight : weight_shapes(config)) {
    const std::int64_t size = count(weight);
    at::Tensor view = parameters.detach().slice(0, offset, offset + size).view(weight.shape);
    view.requires_grad_(true);
    view.mutable_grad() = gradients.slice(0, offset, offset + size).view(weight.shape);
    weights.emplace(weight.name, view);
    offset += size;
  }
  return weights;
}

TrainingState initial_state(const Recipe& recipe, at::Device device) {
  TrainingState state;
  state.config = config_of(recipe);
  at::Tensor parameters = at::ones({parameter_count(state.config)}, at::kFloat);
  Random random(recipe.seed, ~std::uint64_t{0});
  std::int64_t offset = 0;
  for (const WeightShape& weight : weight_shapes(state.config)) {
    if (weight.shape.size() > 1) {
      const bool residual = weight.name.find("o_proj") != std::string::npos ||
                            weight.name.find("down_proj") != std::string::npos;
      const double layers = static_cast<double>(state.config.num_layers);
      fill_normal(parameters.data_ptr<float>() + offset, count(weight),
                  residual ? recipe.deviation / std::sqrt(2.0 * layers) : recipe.deviation, random);
    }
    offset += count(weight);
  }
  state.parameters = parameters.to(device);
  state.first_moment = at::zeros_like(state.parameters);
  state.second_moment = at::zeros_like(state.parameters);
  complete(state);
  return state;
}

void start_from(TrainingState& state, const std::string& model_folder) {
  const at::NoGradGuard no_gradients;
  const ModelConfig config = read_model_config(model_folder);
  const Transformer model =
      load_transformer(model_folder, config, at::kFloat, state.parameters.device());
  for (const auto& [name, weight] : state.weights()) {
    at::Tensor target = weight.detach();
    const at::Tensor& source = model.weight(name);
    if (source.sizes() != target.sizes()) {
      throw WorkError(
          model_folder + ": " + name +
          " has another shape than in the recipe's model; start from a model of that shape");
    }
    target.copy_(source);
  }
}

void save_state(const TrainingState& state, const std::string& path) {
  try {
    UnfinishedFile file(path);
    if (file.error() != 0) throw std::system_error(file.error(), std::generic_category());
    torch::serialize::OutputArchive archive;
    archive.write("parameters", state.parameters.cpu());
    archive.write("first_moment", state.first_moment.cpu());
    archive.write("second_moment", state.second_moment.cpu());
    archive.write("step", at::full({1}, state.step, at::kLong));
    archive.save_to(file.path());
    if (const int error = file.put_in_place(); error != 0) {
      throw std::system_error(error, std::generic_category());
    }
  } catch (const std::exception& error) {
    throw FileError(path, std::string("the checkpoint cannot be written: ") + error.what());
  }
}

TrainingState load_state(const Recipe& recipe, const std::string& path, at::Device device) {
  if (!std::filesystem::exists(path)) throw FileError(path, "there is no checkpoint");
  TrainingState state;
  state.config = config_of(recipe);
  at::Tensor step;
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(path);
    archive.read("parameters", state.parameters);
    archive.read("first_moment", state.first_moment);
    archive.read("second_moment", state.second_moment);
    archive.read("step", step);
  } catch (const std::exception&) {
    throw FileError(path,
                    "is not a complete checkpoint of kvloupe-train; remove it to start again");
  }
  const std::int64_t size = parameter_count(state.config);
  for (at::Tensor* part : {&state.parameters, &state.first_moment, &state.second_moment}) {
    if (part->dim() != 1 || part->size(0) != size || part->scalar_type() != at::kFloat) {
      throw FileError(
          path, "this checkpoint belongs to another model than the recipe's; use another folder");
    }
    *part = part->detach().to(device);
  }
  state.step = step.item<std::int64_t>();
  complete(state);
  return state;
}

at::Tensor update(TrainingState& state, const OptimizerSettings& settings, double rate,
                  const Stage& stage) {
  const at::NoGradGuard no_gradients;
  const at::Tensor norm = state.gradients.norm();
  state.gradients.mul_((settings.gradient_clip / (norm + 1e-6)).clamp_max(1.0));
  ++state.step;
  const double correction1 = 1.0 - std::pow(settings.beta1, static_cast<double>(state.step));
  const double correction2 = 1.0 - std::pow(settings.beta2, static_cast<double>(state.step));
  state.parameters.addcmul_(state.parameters, state.decayed, -rate * stage.weight_decay);
  state.first_moment.lerp_(state.gradients, 1.0 - settings.beta1);
  state.second_moment.mul_(settings.beta2)
      .addcmul_(state.gradients, state.gradients, 1.0 - settings.beta2);
  const at::Tensor divisor = (state.second_moment / correction2).sqrt_().add_(settings.epsilon);
  at::Tensor direction = state.first_moment / divisor / correction1;
  if (stage.orthogonal > 0.0) orthogonalise(state, direction, stage.orthogonal);
  state.parameters.add_(direction, -rate);
  state.gradients.zero_();
  return norm;
}

void export_model(const TrainingState& state, const Recipe& recipe, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path path(folder);
  const Vocabulary vocabulary;
  write_file(path / "config.json", model_config_json(recipe.model, vocabulary.size()));
  write_file(path / "tokenizer.model", tokenizer_model(vocabulary));

  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::int64_t offset = 0;
  for (const WeightShape& weight : weight_shapes(state.config)) {
    const std::int64_t end = offset + count(weight);
    tensors.emplace_back(
        weight.name,
        state.parameters.detach().slice(0, offset, end).view(weight.shape).to(at::kBFloat16).cpu());
    offset = end;
  }
  write_safetensors(path / "model.safetensors", tensors);
}

}  // namespace kvloupe::train

#include "capture/run/model_weights.h"

#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <span>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/trace/half.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "capture/model/load_transformer.h"
#include "capture/run/compute.h"
#include "capture/run/layer_writer.h"
#include "capture/run/model_description.h"
#include "capture/run/trace_plan.h"

namespace kvloupe {

namespace {
std::span<const float> numbers_of(const at::Tensor& x) {
  return {x.data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}
}  // namespace

WeightsPlace weights_place(const ModelInfo& model, const std::string& fingerprint,
                           const std::string& dtype, Storage storage) {
  WeightsPlace place;
  place.form = weights_form(dtype, storage == Storage::float32);
  const std::filesystem::path file = weights_path(cache_folder(), fingerprint, place.form);
  if (file.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  place.there = holds_weights(file, model, fingerprint, place.form);
  if (!place.there && access(file.parent_path().c_str(), W_OK) != 0) return {};
  place.file = file;
  return place;
}

void keep_weights(const Transformer& model, const ModelInfo& info, const std::string& fingerprint,
                  const WeightsPlace& place, Storage storage, bool half, const Progress& progress) {
  if (place.there) return;
  WeightsWriter writer(place.file, info, fingerprint, place.form);
  for (int layer = 0; layer < info.num_layers; ++layer) {
    progress.check();
    const at::Tensor slices = output_slices(model, layer, storage);
    const std::span<const float> numbers = numbers_of(slices);
    writer.write_output_weight(layer, numbers,
                               storage == Storage::float16 || (half && are_halves(numbers)));
  }
  const at::Tensor head = model.head_weight().to(at::kCPU, at::kFloat).contiguous();
  writer.write_lm_head(numbers_of(head));
  writer.finish();
}

void restore_weights(const std::filesystem::path& path, const ModelChoice& choice,
                     Progress& progress) {
  const c10::InferenceMode no_gradients;
  std::string form;
  {
    const Trace trace(path);
    if (missing_weights(trace).empty()) return;
    form = named_weights_form(trace);
  }
  const std::string fingerprint = model_fingerprint(choice.path, progress);
  if (fingerprint.empty() || fingerprint != stored_model_fingerprint(path)) {
    throw FileError(choice.path.string(),
                    "is not the model that made " + path.string() + "; give the one that did");
  }
  const ModelConfig config = read_model_config(choice.path);
  const ModelInfo info = describe_model(config, choice.path);
  const Storage storage = form.ends_with("-f32") ? Storage::float32 : Storage::float16;
  const std::string dtype = form.substr(0, form.find('-'));
  const WeightsPlace place = weights_place(info, fingerprint, dtype, storage);
  if (!place) {
    throw FileError(path.string(),
                    "its weights cannot be written to the cache folder; set XDG_CACHE_HOME to a "
                    "folder that can be written to");
  }
  const at::Device device = parse_device("cpu");
  const at::ScalarType type = parse_compute_type(dtype, device);
  const Transformer model = load_transformer(choice.path, config, type, device, choice.weights);
  keep_weights(model, info, fingerprint, place, storage,
               storage == Storage::float32 && has_half_projections(choice.path, config), progress);
}

}  // namespace kvloupe

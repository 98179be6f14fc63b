#include "capture/run/restore_weights.h"

#include <c10/core/InferenceMode.h>

#include <string>

#include "analysis/error.h"
#include "analysis/trace/model_fingerprint.h"
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/trace.h"
#include "capture/model/load_transformer.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/run/model_weights.h"
#include "capture/run/trace_plan.h"

namespace kvloupe {

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

#include "capture/run/model_weights.h"

#include <unistd.h>

#include <span>
#include <system_error>

#include "analysis/trace/half.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/shared_weights.h"
#include "capture/run/layer_writer.h"

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

}  // namespace kvloupe

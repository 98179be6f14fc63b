#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "capture/checkpoint/weight_source.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// The weights of a model whose files join weights, or name them differently (WeightLayout): by the
/// names of weight_shapes(), from a source that knows the files' own names.
class StoredWeights final : public WeightSource {
 public:
  StoredWeights(const ModelConfig& config, std::shared_ptr<const WeightSource> files);

  const std::filesystem::path& path() const override { return files_->path(); }
  at::Tensor rows(const std::string& name, const std::vector<std::int64_t>& shape,
                  std::int64_t first, std::int64_t end, at::ScalarType type,
                  const at::Tensor& room) const override;
  bool is_half(const std::string& name) const override;
  bool is_mapped(const std::string& name, at::ScalarType type) const override;
  void refuse_others(const std::set<std::string>& used,
                     const std::string& architecture) const override;

 private:
  /// The place of a weight: row r is row first + step · r of the tensor `name`, or of its part
  /// `index` if that is not negative; of the transposed part if `transposed`.
  struct Place {
    std::string name;
    std::vector<std::int64_t> shape;  // of the tensor; empty: that of the weight
    std::int64_t index = -1;
    std::int64_t first = 0;
    std::int64_t step = 1;
    bool transposed = false;

    /// Whether the rows lie in the tensor as they are.
    bool is_plain() const { return step == 1 && !transposed; }
  };
  Place place_of(const std::string& name) const;
  Place fused_place(const std::string& layer, const std::string& part) const;
  Place expert_place(const std::string& layer, std::int64_t index, const std::string& part) const;
  at::Tensor whole_part(const Place& place, at::ScalarType type) const;

  // Copied, as the configuration may not outlive the model's loading.
  WeightLayout layout_;
  std::int64_t queries_, keys_, hidden_, intermediate_;
  Experts experts_;
  std::shared_ptr<const WeightSource> files_;
  // The part that was read last: gate and up come from the same one. For one thread.
  mutable std::string held_name_;
  mutable std::int64_t held_index_ = -1;
  mutable at::Tensor held_;
};

}  // namespace kvloupe

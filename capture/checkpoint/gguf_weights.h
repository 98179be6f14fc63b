#pragma once

#include <string>

#include "capture/checkpoint/weight_source.h"
#include "capture/gguf/gguf_model.h"

namespace kvloupe {

/// The weights of a GGUF file. Packed numbers are expanded when they are asked for, exactly as
/// their type says in float32, then rounded once to the type asked for. Rows of queries and keys
/// that the file has in another order are put back.
class GgufWeights final : public WeightSource {
 public:
  /// Throws FileError: see GgufModel; a tensor of a type that kvloupe does not read.
  explicit GgufWeights(const std::filesystem::path& first);

  const std::filesystem::path& path() const override { return model_.path(); }
  at::Tensor rows(const std::string& name, const std::vector<std::int64_t>& shape,
                  std::int64_t first, std::int64_t end, at::ScalarType type,
                  const at::Tensor& room) const override;
  bool is_half(const std::string& name) const override;
  bool is_mapped(const std::string& name, at::ScalarType type) const override;
  void refuse_others(const std::set<std::string>& used,
                     const std::string& architecture) const override;

 private:
  /// The row of the file that holds this row of a weight with `rows` rows.
  std::int64_t row_in_file(const std::string& name, std::int64_t row) const;

  GgufModel model_;
  std::string architecture_;
  std::int64_t head_dim_ = 0;
};

}  // namespace kvloupe

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {

/// The files a model's weights come from, by the names they have in Hugging Face's layout. The
/// files stay mapped.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// The path that an error about the whole model names.
  virtual const std::filesystem::path& path() const = 0;
  /// Rows [first, end) of a weight of this shape, in `type` (float32 or bfloat16), on the CPU. If
  /// the file holds this very type, they refer to the mapped file and must not be written to. Else
  /// they are written into `room` if it is defined: at least as many numbers, dense, of this type.
  /// (New memory for each layer costs more time than the numbers in it.) Throws FileError unless
  /// the weight is there, has this shape, and is stored in a way that kvloupe reads.
  virtual at::Tensor rows(const std::string& name, const std::vector<std::int64_t>& shape,
                          std::int64_t first, std::int64_t end, at::ScalarType type,
                          const at::Tensor& room) const = 0;
  at::Tensor tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                    at::ScalarType type) const {
    return rows(name, shape, 0, shape.front(), type, {});
  }
  /// Whether the file stores this weight as float16.
  virtual bool is_half(const std::string& name) const = 0;
  /// Whether rows() of this type refer to the mapped file.
  virtual bool is_mapped(const std::string& name, at::ScalarType type) const = 0;
  /// Throws FileError if the files hold a weight of the model that is not one of these: leaving it
  /// out would change the model's results. `architecture` is named in the error.
  virtual void refuse_others(const std::set<std::string>& used,
                             const std::string& architecture) const = 0;

 protected:
  /// A tensor of this shape in `room`, or in memory of its own.
  static at::Tensor in_room(const std::vector<std::int64_t>& shape, at::ScalarType type,
                            const at::Tensor& room) {
    if (!room.defined()) return at::empty(shape, type);
    std::int64_t numbers = 1;
    for (const std::int64_t size : shape) numbers *= size;
    return room.view({-1}).slice(0, 0, numbers).view(shape);
  }
};

}  // namespace kvloupe

#pragma once
// The safetensors format: 8 bytes little-endian header length, a JSON header, then the tensors'
// bytes. https://github.com/huggingface/safetensors#format

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/safetensors_header.h"
#include "capture/checkpoint/weight_source.h"

namespace kvloupe {

class MappedFile;

/// A memory-mapped safetensors file. Opening reads and checks only the header: every tensor's bytes
/// lie inside the file, their number matches dtype and shape, and they neither overlap nor leave
/// gaps. A number from the file is checked before memory is allocated for it.
class SafetensorsFile {
 public:
  /// Throws FileError: missing, truncated, not safetensors, a header that contradicts the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  using Entry = SafetensorsEntry;
  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  bool has(const std::string& name) const { return entries_.count(name) != 0; }

  /// The tensor, reading straight from the map (copied only where misaligned); it keeps the map
  /// alive and must not be written to. Throws FileError: no such tensor, or a dtype other than
  /// F32, F16 and BF16.
  at::Tensor tensor(const std::string& name) const;
  /// A tensor's bytes as they lie in the file. Throws FileError: no such tensor.
  std::span<const std::byte> bytes(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> map_;
  std::uint64_t data_start_ = 0;
  std::map<std::string, Entry> entries_;
};

/// The weights of a model folder: model.safetensors, or the shards that
/// model.safetensors.index.json lists. A weight NAME in MXFP4 (gpt-oss) is two tensors, NAME_blocks
/// and NAME_scales.
class Checkpoint final : public WeightSource {
 public:
  /// Throws FileError: neither file exists, a broken index, an index that names files outside the
  /// folder or a tensor twice, a shard that is missing, broken or without a tensor that the index
  /// lists, a tensor in two shards.
  explicit Checkpoint(const std::filesystem::path& folder);

  bool has(const std::string& name) const { return file_of_.count(name) != 0; }
  using WeightSource::tensor;
  /// Every tensor of every file, including those that are missing in the index.
  std::vector<std::string> names() const;
  /// model.safetensors or the index.
  const std::filesystem::path& path() const override { return main_file_; }
  at::Tensor rows(const std::string& name, const std::vector<std::int64_t>& shape,
                  std::int64_t first, std::int64_t end, at::ScalarType type,
                  const at::Tensor& room) const override;
  bool is_half(const std::string& name) const override;
  bool is_mapped(const std::string& name, at::ScalarType type) const override;
  void refuse_others(const std::set<std::string>& used,
                     const std::string& architecture) const override;
  /// Like SafetensorsFile::tensor; also throws FileError unless the tensor has this shape.
  at::Tensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;

 private:
  bool is_packed(const std::string& name) const { return !has(name) && has(name + "_blocks"); }
  /// The first dimension's entries [first, end) of a weight in MXFP4.
  at::Tensor packed_rows(const std::string& name, const std::vector<std::int64_t>& shape,
                         std::int64_t first, std::int64_t end, at::ScalarType type,
                         const at::Tensor& room) const;
  /// Bytes of a tensor of the dtype U8 and this shape.
  std::span<const std::byte> packed_bytes(const std::string& name,
                                          const std::vector<std::int64_t>& shape) const;
  std::filesystem::path main_file_;  // named in errors about a missing tensor
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;  // tensor name -> index into files_
};

}  // namespace kvloupe

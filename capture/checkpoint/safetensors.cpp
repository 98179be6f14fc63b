#include "capture/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "analysis/base/core/error.h"
#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "capture/file/mapped_file.h"

namespace kvloupe {

namespace {

/// Numbers of one block of MXFP4: they share a power of two.
inline constexpr std::int64_t kMxfp4Block = 32;

inline constexpr std::int64_t kMxfp4BlockBytes = 16;

/// Expands blocks of MXFP4 as safetensors files of gpt-oss keep them: 16 bytes for each block, the
/// first number of a byte in its lower half, and for each block the exponent of its scale, plus
/// 127. The results [32 · blocks] are exact. (GGUF files keep the numbers in another order.)
void expand_mxfp4(const std::byte* blocks, const std::byte* scales, std::int64_t count,
                  float* numbers) {
  // Sign, two bits of exponent, one of mantissa.
  static constexpr std::array<float, 16> kValues{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                 4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                 -2.0F, -3.0F, -4.0F, -6.0F};
  constexpr int kBias = 127;
  for (std::int64_t block = 0; block < count; ++block) {
    const float scale = std::ldexp(1.0F, std::to_integer<int>(scales[block]) - kBias);
    for (std::int64_t i = 0; i < kMxfp4BlockBytes; ++i) {
      const auto two = std::to_integer<unsigned>(blocks[block * kMxfp4BlockBytes + i]);
      *numbers++ = kValues[two & 15U] * scale;
      *numbers++ = kValues[two >> 4U] * scale;
    }
  }
}

constexpr const char* kIncompleteShards = "; is the download complete?";

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), map_(std::make_shared<const MappedFile>(path)) {
  SafetensorsHeader header = read_safetensors_header(path_.string(), {map_->data(), map_->size()});
  data_start_ = header.data_start;
  entries_ = std::move(header.entries);
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw FileError(path_.string(), "does not contain the tensor " + in_one_line(name));
  const Entry& entry = found->second;
  at::ScalarType type = at::kFloat;
  if (entry.dtype == "F16") {
    type = at::kHalf;
  } else if (entry.dtype == "BF16") {
    type = at::kBFloat16;
  } else if (entry.dtype != "F32") {
    throw FileError(path_.string(),
                    "tensor " + in_one_line(name) + " has the dtype " + in_one_line(entry.dtype) +
                        "; F32, F16 and BF16 are supported. A GGUF file of the model works, and so "
                        "does the Python package's capture");
  }
  const std::byte* start = map_->data() + data_start_ + entry.begin;
  const std::uint64_t element = safetensors_dtype_bytes(entry.dtype);
  if (reinterpret_cast<std::uintptr_t>(start) % element != 0) {
    at::Tensor copy = at::empty(entry.shape, type);
    std::memcpy(copy.data_ptr(), start, entry.end - entry.begin);
    return copy;
  }
  return at::from_blob(
      const_cast<std::byte*>(start), entry.shape, [map = map_](void*) {}, at::dtype(type));
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw FileError(path_.string(), "does not contain the tensor " + in_one_line(name));
  const Entry& entry = found->second;
  return {map_->data() + data_start_ + entry.begin,
          static_cast<std::size_t>(entry.end - entry.begin)};
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) {
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored) || !std::filesystem::exists(index, ignored)) {
    main_file_ = single;
    if (!std::filesystem::exists(single, ignored)) {
      throw FileError(folder.string(),
                      "contains neither model.safetensors nor model.safetensors.index.json; a "
                      "Hugging Face model folder is expected");
    }
    files_.emplace_back(single);
    for (const auto& [name, entry] : files_.front().entries()) file_of_.emplace(name, 0);
    return;
  }

  main_file_ = index;
  std::map<std::string, std::size_t> opened;
  for (const auto& [name, file_name] :
       read_safetensors_index(index.string(), read_file(index, kLargestSafetensorsHeader))) {
    const auto [place, is_new] = opened.try_emplace(file_name, files_.size());
    if (is_new) {
      if (!std::filesystem::exists(folder / file_name, ignored)) {
        throw FileError((folder / file_name).string(),
                        std::string("the index names this shard, but the file does not exist") +
                            kIncompleteShards);
      }
      files_.emplace_back(folder / file_name);
    }
    if (!files_[place->second].has(name)) {
      throw FileError(
          (folder / file_name).string(),
          "does not contain the tensor " + in_one_line(name) + ", although the index says so");
    }
    file_of_.emplace(name, place->second);
  }
  for (std::size_t shard = 0; shard < files_.size(); ++shard) {
    for (const auto& [name, entry] : files_[shard].entries()) {
      const auto mapped = file_of_.find(name);
      if (mapped == file_of_.end() || mapped->second == shard) continue;
      throw FileError(files_[shard].path().string(),
                      "contains the tensor " + in_one_line(name) + ", and so does " +
                          files_[mapped->second].path().filename().string() +
                          ": two checkpoints in one folder?");
    }
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, entry] : file.entries()) names.push_back(name);
  }
  return names;
}

at::Tensor Checkpoint::tensor(const std::string& name,
                              const std::vector<std::int64_t>& shape) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    throw FileError(main_file_.string(),
                    "does not contain the tensor " + name +
                        ", which config.json requires; do the two files belong together?");
  }
  const SafetensorsFile& file = files_[found->second];
  const std::vector<std::int64_t>& written = file.entries().at(name).shape;
  if (written != shape) {
    throw FileError(file.path().string(), "tensor " + name + " has the shape " +
                                              shape_text(written) + " but config.json requires " +
                                              shape_text(shape));
  }
  return file.tensor(name);
}

at::Tensor Checkpoint::rows(const std::string& name, const std::vector<std::int64_t>& shape,
                            std::int64_t first, std::int64_t end, at::ScalarType type,
                            const at::Tensor& room) const {
  if (is_packed(name)) return packed_rows(name, shape, first, end, type, room);
  const at::Tensor stored = tensor(name, shape).slice(0, first, end);
  if (stored.scalar_type() == type) return stored;
  at::Tensor converted = in_room(stored.sizes().vec(), type, room);
  return converted.copy_(stored);
}

std::span<const std::byte> Checkpoint::packed_bytes(const std::string& name,
                                                    const std::vector<std::int64_t>& shape) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    throw FileError(main_file_.string(),
                    "does not contain the tensor " + in_one_line(name) +
                        ", which weights in MXFP4 need; is the download complete?");
  }
  const SafetensorsFile& file = files_[found->second];
  const SafetensorsEntry& entry = file.entries().at(name);
  if (entry.dtype != "U8" || entry.shape != shape) {
    throw FileError(file.path().string(), "tensor " + in_one_line(name) + " is " +
                                              in_one_line(entry.dtype) + " " +
                                              shape_text(entry.shape) +
                                              " but config.json requires U8 " + shape_text(shape));
  }
  return file.bytes(name);
}

at::Tensor Checkpoint::packed_rows(const std::string& name, const std::vector<std::int64_t>& shape,
                                   std::int64_t first, std::int64_t end, at::ScalarType type,
                                   const at::Tensor& room) const {
  if (shape.back() % kMxfp4Block != 0) {
    throw FileError(main_file_.string(), "tensor " + in_one_line(name) + "_blocks: rows of " +
                                             std::to_string(shape.back()) +
                                             " numbers are not whole blocks of MXFP4");
  }
  std::vector<std::int64_t> of_scales = shape;
  of_scales.back() /= kMxfp4Block;
  std::vector<std::int64_t> of_blocks = of_scales;
  of_blocks.push_back(kMxfp4BlockBytes);
  const std::span<const std::byte> blocks = packed_bytes(name + "_blocks", of_blocks);
  const std::span<const std::byte> scales = packed_bytes(name + "_scales", of_scales);
  std::vector<std::int64_t> wanted = shape;
  wanted.front() = end - first;
  at::Tensor numbers = at::empty(wanted, at::kFloat);
  const std::int64_t count = numbers.numel() / kMxfp4Block;
  const std::int64_t before = std::ssize(scales) / shape.front() * first;
  constexpr std::int64_t kAtOnce = 2048;  // blocks
  parallel_loop<std::int64_t>(0, (count + kAtOnce - 1) / kAtOnce, [&](std::int64_t part) {
    const std::int64_t at = part * kAtOnce;
    expand_mxfp4(blocks.data() + (before + at) * kMxfp4BlockBytes, scales.data() + before + at,
                 std::min(kAtOnce, count - at), numbers.data_ptr<float>() + at * kMxfp4Block);
  });
  if (type == at::kFloat && !room.defined()) return numbers;
  return in_room(wanted, type, room).copy_(numbers);
}

bool Checkpoint::is_half(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found != file_of_.end() && files_[found->second].entries().at(name).dtype == "F16";
}

bool Checkpoint::is_mapped(const std::string& name, at::ScalarType type) const {
  const auto found = file_of_.find(name);
  return found != file_of_.end() &&
         files_[found->second].entries().at(name).dtype == (type == at::kFloat ? "F32" : "BF16");
}

void Checkpoint::refuse_others(const std::set<std::string>& used,
                               const std::string& architecture) const {
  for (const std::string& name : names()) {
    std::string_view view = name;
    for (const std::string_view part : {"_blocks", "_scales"}) {  // of a weight in MXFP4
      if (view.ends_with(part)) view.remove_suffix(part.size());
    }
    const bool belongs = view.starts_with("model.") || view.starts_with("lm_head.");
    // Two tensors are not used: older files store the rotation's frequencies, which follow from the
    // config; and a tied output head is the embedding, whatever the file holds.
    const bool harmless = view.ends_with(".rotary_emb.inv_freq") || view == "lm_head.weight";
    const bool is_used = used.count(name) != 0 || used.count(std::string(view)) != 0;
    if (!belongs || harmless || is_used) continue;
    throw FileError(main_file_.string(),
                    "contains the tensor " + in_one_line(name) + ", which a " + architecture +
                        " with this config.json does not use; do the two files belong together?");
  }
}

}  // namespace kvloupe

#include "capture/checkpoint/gguf_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/safetensors_header.h"
#include "capture/gguf/gguf_config.h"
#include "capture/gguf/gguf_type.h"

namespace kvloupe {

namespace {

constexpr std::int64_t kAtOnce = std::int64_t{1} << 16;  // numbers that a thread expands at once

/// The tensor type of a file's type whose numbers can be used as they lie there.
std::optional<at::ScalarType> plain_type(const GgufType& type) {
  if (type.name == "F32") return at::kFloat;
  if (type.name == "F16") return at::kHalf;
  if (type.name == "BF16") return at::kBFloat16;
  return std::nullopt;
}

}  // namespace

GgufWeights::GgufWeights(const std::filesystem::path& first)
    : model_(first), architecture_(model_.architecture()) {
  head_dim_ = nlohmann::json::parse(gguf_config(model_)).at("head_dim").get<std::int64_t>();
  for (const std::string& name : model_.names()) {
    const GgufModel::Found found = model_.tensor(name);
    const GgufType& type = *find_gguf_type(found.tensor->type);
    if (type.expand != nullptr) continue;
    throw FileError(found.file->string(),
                    "tensor " + in_quotes(name) + " has the type " + std::string(type.name) +
                        ", which this version does not read; choose a file with another "
                        "quantisation, such as Q4_K_M or Q8_0");
  }
}

std::int64_t GgufWeights::row_in_file(const std::string& name, std::int64_t row) const {
  if (!has_interleaved_rows(architecture_, name)) return row;
  const std::int64_t head = row / head_dim_, within = row % head_dim_, half = head_dim_ / 2;
  return head * head_dim_ + (within < half ? 2 * within : 2 * (within - half) + 1);
}

bool GgufWeights::is_half(const std::string& name) const {
  return find_gguf_type(model_.tensor(gguf_tensor_name(architecture_, name)).tensor->type)->name ==
         "F16";
}

bool GgufWeights::is_mapped(const std::string& name, at::ScalarType type) const {
  if (has_interleaved_rows(architecture_, name)) return false;
  const GgufModel::Found found = model_.tensor(gguf_tensor_name(architecture_, name));
  const auto place = reinterpret_cast<std::uintptr_t>(found.bytes.data());
  return plain_type(*find_gguf_type(found.tensor->type)) == type &&
         place % c10::elementSize(type) == 0;
}

at::Tensor GgufWeights::rows(const std::string& name, const std::vector<std::int64_t>& shape,
                             std::int64_t first, std::int64_t end, at::ScalarType type,
                             const at::Tensor& room) const {
  const std::string own_name = gguf_tensor_name(architecture_, name);
  const GgufModel::Found found = model_.tensor(own_name);
  if (found.tensor->shape != shape) {
    throw FileError(found.file->string(), "tensor " + in_quotes(own_name) + " has the shape " +
                                              shape_text(found.tensor->shape) +
                                              ", but the model needs " + shape_text(shape));
  }
  const GgufType& packed = *find_gguf_type(found.tensor->type);
  const std::int64_t width = shape.size() > 1 ? shape.back() : 1;
  std::int64_t inner = 1;  // rows in one entry of the first dimension
  for (std::size_t i = 1; i + 1 < shape.size(); ++i) inner *= shape[i];
  std::vector<std::int64_t> wanted = shape;
  wanted.front() = end - first;
  if (is_mapped(name, type)) {
    const std::int64_t bytes =
        first * inner * width * static_cast<std::int64_t>(c10::elementSize(type));
    return at::from_blob(
        const_cast<std::byte*>(found.bytes.data() + bytes), wanted,
        [keep = model_.keep_alive()](void*) {}, at::dtype(type));
  }
  at::Tensor expanded = in_room(wanted, type, room);
  if (shape.size() == 1) {  // a row by itself: a block is not cut
    const std::int64_t blocks = shape.front() / packed.block;
    at::Tensor whole = at::empty({blocks * packed.block}, at::kFloat);
    packed.expand(found.bytes.data(), blocks, whole.data_ptr<float>());
    if (has_interleaved_rows(architecture_, name)) {
      at::Tensor order = at::empty({shape.front()}, at::kLong);
      for (std::int64_t row = 0; row < shape.front(); ++row) {
        order.data_ptr<std::int64_t>()[row] = row_in_file(name, row);
      }
      whole = whole.index_select(0, order);
    }
    return expanded.copy_(whole.slice(0, first, end));
  }
  const std::int64_t blocks = width / packed.block;  // of a row
  const std::int64_t row_bytes = blocks * packed.bytes;
  const std::int64_t at_once = std::max<std::int64_t>(kAtOnce / width, 1);
  const std::int64_t count = (end - first) * inner;
  const std::int64_t groups = (count + at_once - 1) / at_once;
  parallel_loop<std::int64_t>(0, groups, [&](std::int64_t group) {
    std::vector<float> one(type == at::kFloat ? 0 : static_cast<std::size_t>(width));
    const std::int64_t stop = std::min((group + 1) * at_once, count);
    for (std::int64_t row = group * at_once; row < stop; ++row) {
      const std::byte* const from =
          found.bytes.data() + row_in_file(name, first * inner + row) * row_bytes;
      if (type == at::kFloat) {
        packed.expand(from, blocks, expanded.data_ptr<float>() + row * width);
        continue;
      }
      packed.expand(from, blocks, one.data());
      std::copy(one.begin(), one.end(), expanded.data_ptr<at::BFloat16>() + row * width);
    }
  });
  return expanded;
}

void GgufWeights::refuse_others(const std::set<std::string>& used,
                                const std::string& architecture) const {
  std::set<std::string> known;
  for (const std::string& name : used) known.insert(gguf_tensor_name(architecture_, name));
  for (const std::string& name : model_.names()) {
    if (known.count(name) != 0 || is_gguf_constant(name)) continue;
    throw FileError(model_.tensor(name).file->string(),
                    "contains the tensor " + in_one_line(name) + ", which a " + architecture +
                        " with these values does not use; this version does not compute the model");
  }
}

}  // namespace kvloupe

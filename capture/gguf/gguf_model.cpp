#include "capture/gguf/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/model_files.h"
#include "capture/file/mapped_file.h"
#include "capture/gguf/gguf_type.h"

namespace kvloupe {

namespace {

constexpr std::int64_t kMostParts = 99'999;

/// Whether the file says that it is part `index` (from 0) of `count`.
void check_part(const GgufMetadata& metadata, std::size_t index, std::size_t count) {
  const std::int64_t said = metadata.whole_if("split.no", 0, kMostParts).value_or(0);
  const std::int64_t of = metadata.whole_if("split.count", 0, kMostParts).value_or(0);
  const bool whole = count == 1 && of <= 1;
  if (whole || (said == static_cast<std::int64_t>(index) && of == static_cast<std::int64_t>(count)))
    return;
  throw FileError(metadata.path(),
                  fmt::format("says that it is part {} of {}, but its name says {} of {}; give the "
                              "first of all parts, with the names they came with",
                              said + 1, of, index + 1, count));
}

}  // namespace

GgufModel::GgufModel(const std::filesystem::path& first)
    : path_(first), maps_(std::make_shared<std::vector<std::unique_ptr<MappedFile>>>()) {
  const std::vector<std::filesystem::path> paths = gguf_parts(first);
  if (paths.empty()) {
    throw FileError(first.string(), "is not the first part of its model; give the first part");
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::error_code ignored;
    if (i > 0 && !std::filesystem::exists(paths[i], ignored)) {
      throw FileError(paths[i].string(), fmt::format("is missing: the model has {} parts; is the "
                                                     "download complete?",
                                                     paths.size()));
    }
    maps_->push_back(std::make_unique<MappedFile>(paths[i]));
    const MappedFile& map = *maps_->back();
    const std::span<const std::byte> file(map.data(), map.size());
    parts_.push_back({paths[i], read_gguf_header(paths[i].string(), file), file});
    check_part({paths[i].string(), parts_.back().header.values}, i, paths.size());
  }
  std::map<std::string_view, std::size_t> part_of;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    for (const auto& [name, tensor] : parts_[i].header.tensors) {
      if (part_of.emplace(name, i).second) continue;
      throw FileError(parts_[i].path.string(),
                      "contains the tensor " + in_quotes(name) + ", and so does " +
                          parts_[part_of.at(name)].path.filename().string());
    }
  }
  const auto counted = metadata().whole_if("split.tensors.count", 0, INT64_MAX);
  if (counted && *counted != std::ssize(part_of)) {
    throw FileError(path_.string(), fmt::format("says that the model has {} tensors, but its files "
                                                "have {}; is the download complete?",
                                                *counted, part_of.size()));
  }
}

bool GgufModel::has(std::string_view name) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.header.tensors.find(name) != part.header.tensors.end();
  });
}

GgufModel::Found GgufModel::tensor(std::string_view name) const {
  for (const Part& part : parts_) {
    const auto found = part.header.tensors.find(name);
    if (found == part.header.tensors.end()) continue;
    const GgufTensor& tensor = found->second;
    return {&part.path, &tensor, part.file.subspan(tensor.begin, tensor.end - tensor.begin)};
  }
  throw FileError(path_.string(), "does not contain the tensor " + in_quotes(name) + ", which a " +
                                      in_one_line(architecture()) + " model needs");
}

std::vector<std::string> GgufModel::names() const {
  std::vector<std::string> names;
  for (const Part& part : parts_) {
    for (const auto& [name, tensor] : part.header.tensors) names.push_back(name);
  }
  return names;
}

std::string GgufModel::types() const {
  std::map<std::uint32_t, std::int64_t> numbers;
  for (const Part& part : parts_) {
    for (const auto& [name, tensor] : part.header.tensors) {
      if (tensor.shape.size() > 1) numbers[tensor.type] += tensor.numbers();
    }
  }
  std::vector<std::pair<std::uint32_t, std::int64_t>> sorted(numbers.begin(), numbers.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [type, count] : sorted)
    text += (text.empty() ? "" : ", ") + std::string(find_gguf_type(type)->name);
  const auto whole = metadata().whole_if("general.file_type", 0, INT64_MAX);
  const std::string_view name = whole ? gguf_file_type(*whole) : "";
  return sorted.size() < 2 || name.empty() ? text : fmt::format("{} ({})", name, text);
}

}  // namespace kvloupe

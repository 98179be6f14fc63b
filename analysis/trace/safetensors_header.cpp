#include "analysis/trace/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"

namespace kvloupe {

namespace {

constexpr const char* kIncomplete = "; is the download complete?";
constexpr const char* kShardEnding = ".safetensors";

struct DtypeName {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array kDtypes{
    DtypeName{"F64", 8},  DtypeName{"F32", 4},     DtypeName{"F16", 2},     DtypeName{"BF16", 2},
    DtypeName{"I64", 8},  DtypeName{"I32", 4},     DtypeName{"I16", 2},     DtypeName{"I8", 1},
    DtypeName{"U64", 8},  DtypeName{"U32", 4},     DtypeName{"U16", 2},     DtypeName{"U8", 1},
    DtypeName{"BOOL", 1}, DtypeName{"F8_E4M3", 1}, DtypeName{"F8_E5M2", 1},
};

/// Parses a JSON object. `fail` is called with the error, and must throw: no JSON object, or a name
/// that an object gives twice, of which a parser would silently take one.
template <typename Fail>
nlohmann::json parse_unique(std::string_view text, const Fail& fail) {
  std::vector<std::set<std::string>> names;  // of the objects around the place being read
  std::string repeated;
  const auto look = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key) {
      const auto name = value.get<std::string>();
      if (!names.back().insert(name).second) repeated = name;
    }
    return true;
  };
  nlohmann::json parsed =
      nlohmann::json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object()) fail("is not a JSON object");
  if (!repeated.empty()) fail("names " + in_one_line(repeated) + " twice");
  return parsed;
}

}  // namespace

std::uint64_t safetensors_dtype_bytes(std::string_view name) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const DtypeName& dtype) { return dtype.name == name; });
  return found == kDtypes.end() ? 0 : found->bytes;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

SafetensorsHeader read_safetensors_header(const std::string& path,
                                          std::span<const std::byte> file) {
  const auto fail = [&](const std::string& problem) { throw FileError(path, problem); };
  if (file.size() < kSafetensorsLengthBytes)
    fail(std::string("is too short to be a safetensors file") + kIncomplete);
  SafetensorsHeader read;
  std::uint64_t header_bytes = 0;
  for (std::uint64_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    header_bytes |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  if (header_bytes > kLargestSafetensorsHeader)
    fail("is not a safetensors file (impossible header length)");
  if (header_bytes > file.size() - kSafetensorsLengthBytes) {
    fail(std::string("is truncated inside its header") + kIncomplete);
  }
  read.data_start = kSafetensorsLengthBytes + header_bytes;
  const std::uint64_t data_bytes = file.size() - read.data_start;

  const char* text = reinterpret_cast<const char*>(file.data()) + kSafetensorsLengthBytes;
  const nlohmann::json header = parse_unique({text, header_bytes}, [&](const std::string& problem) {
    fail("is not a safetensors file (its header " + problem + ")");
  });

  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, item] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : item.items()) {
        if (value.is_string()) read.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    const auto refuse = [&, &tensor_name = name](const std::string& problem) {
      fail("tensor " + in_one_line(tensor_name) + " " + problem);
    };
    if (!item.is_object()) refuse("has no description in the header");
    const auto dtype = item.find("dtype");
    const auto shape = item.find("shape");
    const auto offsets = item.find("data_offsets");
    if (dtype == item.end() || !dtype->is_string()) refuse("has no dtype");
    if (shape == item.end() || !shape->is_array()) refuse("has no shape");
    if (offsets == item.end() || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
      refuse("has no data_offsets");
    }
    SafetensorsEntry entry;
    entry.dtype = dtype->get<std::string>();
    entry.begin = (*offsets)[0].get<std::uint64_t>();
    entry.end = (*offsets)[1].get<std::uint64_t>();
    if (entry.begin > entry.end) refuse("ends before it begins");
    if (entry.end > data_bytes)
      refuse(std::string("goes beyond the end of the file") + kIncomplete);

    std::uint64_t count = 1;
    for (const nlohmann::json& size : *shape) {
      if (!size.is_number_unsigned()) refuse("has a shape with numbers that are not whole");
      const auto value = size.get<std::uint64_t>();
      // No tensor has more elements than the file has bytes; zero-size ones have none at all.
      if (value > file.size() || (value != 0 && count > file.size() / value)) {
        refuse("has a shape larger than the file");
      }
      count *= value;
      entry.shape.push_back(static_cast<std::int64_t>(value));
    }
    const std::uint64_t element = safetensors_dtype_bytes(entry.dtype);
    if (element != 0 && count * element != entry.end - entry.begin) {
      refuse("takes " + std::to_string(entry.end - entry.begin) + " bytes where " + entry.dtype +
             " " + shape_text(entry.shape) + " needs " + std::to_string(count * element));
    }
    ranges.emplace_back(entry.begin, entry.end);
    read.entries.emplace(name, std::move(entry));
  }

  std::sort(ranges.begin(), ranges.end());
  std::uint64_t reached = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != reached) fail("has tensors that overlap or leave a gap in the file");
    reached = end;
  }
  if (reached != data_bytes) fail("contains more bytes than its header describes");
  return read;
}

std::map<std::string, std::string> read_safetensors_index(const std::string& path,
                                                          std::string_view text) {
  const auto fail = [&](const std::string& problem) { throw FileError(path, problem); };
  const nlohmann::json root =
      parse_unique(text, [&](const std::string& problem) { fail(problem + kIncomplete); });
  if (!root.contains("weight_map") || !root["weight_map"].is_object()) {
    fail("has no weight_map; a safetensors index is expected");
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : root["weight_map"].items()) {
    if (!file.is_string()) fail("the weight_map does not name a file for " + in_one_line(name));
    const auto file_name = file.get<std::string>();
    if (file_name.find('/') != std::string::npos) {
      fail("the weight_map names a file outside its folder for " + in_one_line(name));
    }
    const bool printable = std::none_of(file_name.begin(), file_name.end(),
                                        [](unsigned char c) { return c < 32 || c == 127; });
    if (!printable || !std::string_view(file_name).ends_with(kShardEnding)) {
      fail("the weight_map names " + in_one_line(file_name) + " for " + in_one_line(name) +
           ", which is not a " + kShardEnding + " file");
    }
    files.emplace(name, file_name);
  }
  return files;
}

}  // namespace kvloupe

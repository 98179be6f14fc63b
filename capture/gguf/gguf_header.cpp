#include "capture/gguf/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "capture/gguf/gguf_type.h"

namespace kvloupe {

namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;
constexpr std::size_t kMostDimensions = 4;
constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 40;  // of one dimension
constexpr int kDeepestArray = 4;
constexpr const char* kIncomplete = "; is the download complete?";

/// 0 for strings and arrays: their size is in the file.
std::size_t bytes_of(GgufKind kind) {
  switch (kind) {
    case GgufKind::uint8:
    case GgufKind::int8:
    case GgufKind::boolean:
      return 1;
    case GgufKind::uint16:
    case GgufKind::int16:
      return 2;
    case GgufKind::uint32:
    case GgufKind::int32:
    case GgufKind::float32:
      return 4;
    case GgufKind::uint64:
    case GgufKind::int64:
    case GgufKind::float64:
      return 8;
    case GgufKind::string:
    case GgufKind::array:
      break;
  }
  return 0;
}

template <typename Number>
Number number_at(std::span<const std::byte> bytes, std::uint64_t index = 0) {
  Number value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// Reads from the file's beginning on. Every read checks that the file is long enough.
class Cursor {
 public:
  Cursor(const std::string& path, std::span<const std::byte> file) : path_(path), file_(file) {}

  std::uint64_t place() const { return place_; }
  std::uint64_t left() const { return file_.size() - place_; }
  /// `what` is being read.
  [[noreturn]] void fail(const std::string& what, const std::string& problem) const {
    throw FileError(path_, what + " " + problem);
  }
  std::span<const std::byte> take(std::uint64_t count, const std::string& what) {
    if (count > left()) fail(what, std::string("goes beyond the end of the file") + kIncomplete);
    const auto part = file_.subspan(place_, count);
    place_ += count;
    return part;
  }
  /// `count` things of at least `least` bytes each.
  void expect(std::uint64_t count, std::uint64_t least, const std::string& what) const {
    if (count > left() / least) {
      fail(what, fmt::format("says that there are {}, more than the file has room for", count));
    }
  }
  template <typename Number>
  Number number(const std::string& what) {
    return number_at<Number>(take(sizeof(Number), what));
  }
  std::string_view text(const std::string& what) {
    const auto bytes = take(number<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  const std::string& path_;
  std::span<const std::byte> file_;
  std::uint64_t place_ = 0;
};

GgufKind read_kind(Cursor& cursor, const std::string& what) {
  const auto kind = cursor.number<std::uint32_t>(what);
  if (kind > static_cast<std::uint32_t>(GgufKind::float64)) {
    cursor.fail(what,
                fmt::format("has the unknown kind of value {}; a newer kvloupe may read it", kind));
  }
  return static_cast<GgufKind>(kind);
}

/// Skips an array within an array, which kvloupe does not need.
void skip_array(Cursor& cursor, const std::string& what, int depth) {
  if (depth > kDeepestArray) cursor.fail(what, "has arrays that are nested too deeply");
  const GgufKind element = read_kind(cursor, what);
  const auto count = cursor.number<std::uint64_t>(what);
  if (element == GgufKind::array) {
    cursor.expect(count, sizeof(std::uint32_t) + sizeof(std::uint64_t), what);
    for (std::uint64_t i = 0; i < count; ++i) skip_array(cursor, what, depth + 1);
  } else if (element == GgufKind::string) {
    cursor.expect(count, sizeof(std::uint64_t), what);
    for (std::uint64_t i = 0; i < count; ++i) cursor.text(what);
  } else {
    cursor.expect(count, bytes_of(element), what);
    cursor.take(count * bytes_of(element), what);
  }
}

GgufValue read_value(Cursor& cursor, const std::string& what) {
  GgufValue value;
  value.kind = read_kind(cursor, what);
  if (value.kind == GgufKind::string) {
    const std::string_view text = cursor.text(what);
    value.bytes = std::as_bytes(std::span(text.data(), text.size()));
    return value;
  }
  if (value.kind != GgufKind::array) {
    value.bytes = cursor.take(bytes_of(value.kind), what);
    return value;
  }
  value.element = read_kind(cursor, what);
  value.count = cursor.number<std::uint64_t>(what);
  if (value.element == GgufKind::array) {
    cursor.expect(value.count, sizeof(std::uint32_t) + sizeof(std::uint64_t), what);
    for (std::uint64_t i = 0; i < value.count; ++i) skip_array(cursor, what, 2);
  } else if (value.element == GgufKind::string) {
    cursor.expect(value.count, sizeof(std::uint64_t), what);
    value.texts.reserve(value.count);
    for (std::uint64_t i = 0; i < value.count; ++i) value.texts.push_back(cursor.text(what));
  } else {
    cursor.expect(value.count, bytes_of(value.element), what);
    value.bytes = cursor.take(value.count * bytes_of(value.element), what);
  }
  return value;
}

std::string key_text(std::string_view key) { return "key " + in_quotes(std::string(key)); }
std::string tensor_text(std::string_view name) { return "tensor " + in_quotes(std::string(name)); }

/// A tensor whose `begin` counts from where the data starts, and whose `end` is not known yet.
GgufTensor read_tensor(Cursor& cursor, const std::string& what) {
  GgufTensor tensor;
  const auto dimensions = cursor.number<std::uint32_t>(what);
  if (dimensions == 0 || dimensions > kMostDimensions) {
    cursor.fail(what, fmt::format("has {} dimensions, not 1 to {}", dimensions, kMostDimensions));
  }
  std::uint64_t numbers = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto size = cursor.number<std::uint64_t>(what);
    if (size == 0 || size > kLargestSize || numbers > kLargestSize / size) {
      cursor.fail(what, fmt::format("has a dimension of {}, which is not possible", size));
    }
    numbers *= size;
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  tensor.type = cursor.number<std::uint32_t>(what);
  tensor.begin = cursor.number<std::uint64_t>(what);
  return tensor;
}

/// Sets where the tensor ends, counted as `begin` is.
void measure(GgufTensor& tensor, const Cursor& cursor, const std::string& what) {
  const GgufType* type = find_gguf_type(tensor.type);
  if (type == nullptr) {
    cursor.fail(what, fmt::format("has the unknown type {}; a newer kvloupe may read it, or "
                                  "choose a file with other quantisation, such as Q4_K_M or Q8_0",
                                  tensor.type));
  }
  const std::int64_t row = tensor.shape.back();
  if (row % type->block != 0) {
    cursor.fail(what, fmt::format("has rows of {} numbers, but the type {} packs {} at a time", row,
                                  type->name, type->block));
  }
  const auto blocks = static_cast<std::uint64_t>(tensor.numbers() / type->block);
  tensor.end = tensor.begin + blocks * static_cast<std::uint64_t>(type->bytes);
}

void check_places(const std::string& path, const GgufHeader& header) {
  std::vector<std::pair<const GgufTensor*, const std::string*>> order;
  for (const auto& [name, tensor] : header.tensors) order.emplace_back(&tensor, &name);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first->begin < b.first->begin; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i].first->begin >= order[i - 1].first->end) continue;
    throw FileError(path, tensor_text(*order[i].second) + " overlaps with " +
                              tensor_text(*order[i - 1].second));
  }
}

}  // namespace

std::int64_t GgufTensor::numbers() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

GgufHeader read_gguf_header(const std::string& path, std::span<const std::byte> file) {
  Cursor cursor(path, file);
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    throw FileError(path, "is not a GGUF file");
  }
  cursor.take(kMagic.size(), "the header");
  GgufHeader header;
  header.version = cursor.number<std::uint32_t>("the header");
  if (header.version != 0 && (header.version & 0xFFFFU) == 0) {
    throw FileError(path, "is a GGUF file for big-endian machines; take the usual one");
  }
  if (header.version < 2 || header.version > 3) {
    throw FileError(path, fmt::format("has the GGUF version {}; versions 2 and 3 are supported",
                                      header.version));
  }
  const auto tensor_count = cursor.number<std::uint64_t>("the header");
  const auto value_count = cursor.number<std::uint64_t>("the header");
  // An empty text, a kind and a value; an empty name, a dimension, a type and a place.
  cursor.expect(value_count, 8 + 4 + 1, "the count of keys");
  for (std::uint64_t i = 0; i < value_count; ++i) {
    const std::string_view key = cursor.text(fmt::format("key {}", i));
    const std::string what = key_text(key);
    const auto [place, fresh] = header.values.try_emplace(std::string(key));
    if (!fresh) throw FileError(path, what + " is there twice");
    place->second = read_value(cursor, what);
  }
  cursor.expect(tensor_count, 8 + 4 + 8 + 4 + 8, "the count of tensors");
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    const std::string_view name = cursor.text(fmt::format("the name of tensor {}", i));
    const std::string what = tensor_text(name);
    const auto [place, fresh] = header.tensors.try_emplace(std::string(name));
    if (!fresh) throw FileError(path, what + " is there twice");
    place->second = read_tensor(cursor, what);
    measure(place->second, cursor, what);
  }

  const GgufMetadata metadata(path, header.values);
  const auto alignment = static_cast<std::uint64_t>(
      metadata.whole_if("general.alignment", 1, kLargestAlignment).value_or(kDefaultAlignment));
  const std::uint64_t start = (cursor.place() + alignment - 1) / alignment * alignment;
  for (auto& [name, tensor] : header.tensors) {
    if (tensor.begin % alignment != 0) {
      throw FileError(path, tensor_text(name) + fmt::format(" begins at byte {} of the data, which "
                                                            "is not a multiple of the alignment {}",
                                                            tensor.begin, alignment));
    }
    if (start > file.size() || tensor.begin > file.size() - start ||
        tensor.end - tensor.begin > file.size() - start - tensor.begin) {
      throw FileError(path, tensor_text(name) + " goes beyond the end of the file" + kIncomplete);
    }
    tensor.begin += start;
    tensor.end += start;
  }
  check_places(path, header);
  return header;
}

void GgufMetadata::fail(std::string_view key, const std::string& problem) const {
  throw FileError(path_, key_text(key) + " " + problem);
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_->find(key);
  return found == values_->end() ? nullptr : &found->second;
}

std::optional<std::string> GgufMetadata::text_if(std::string_view key, std::size_t longest) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufKind::string) fail(key, "must be a text");
  if (value->bytes.size() > longest) fail(key, fmt::format("is longer than {} bytes", longest));
  return std::string(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::string GgufMetadata::text(std::string_view key, std::size_t longest) const {
  const std::optional<std::string> found = text_if(key, longest);
  if (!found) fail(key, "is missing");
  return *found;
}

std::optional<bool> GgufMetadata::flag_if(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufKind::boolean) fail(key, "must be true or false");
  return number_at<std::uint8_t>(value->bytes) != 0;
}

namespace {

/// Element `index` of a value as a whole number; nothing for texts, other numbers, and too large
/// values.
std::optional<std::int64_t> whole_at(GgufKind kind, std::span<const std::byte> bytes,
                                     std::uint64_t index) {
  switch (kind) {
    case GgufKind::uint8:
      return number_at<std::uint8_t>(bytes, index);
    case GgufKind::int8:
      return number_at<std::int8_t>(bytes, index);
    case GgufKind::uint16:
      return number_at<std::uint16_t>(bytes, index);
    case GgufKind::int16:
      return number_at<std::int16_t>(bytes, index);
    case GgufKind::uint32:
      return number_at<std::uint32_t>(bytes, index);
    case GgufKind::int32:
      return number_at<std::int32_t>(bytes, index);
    case GgufKind::int64:
      return number_at<std::int64_t>(bytes, index);
    case GgufKind::uint64: {
      const auto value = number_at<std::uint64_t>(bytes, index);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::int64_t> GgufMetadata::whole_if(std::string_view key, std::int64_t least,
                                                   std::int64_t most) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = whole_at(value->kind, value->bytes, 0);
  if (!number || *number < least || *number > most) {
    fail(key, fmt::format("must be a whole number from {} to {}", least, most));
  }
  return number;
}

std::int64_t GgufMetadata::whole(std::string_view key, std::int64_t least,
                                 std::int64_t most) const {
  const std::optional<std::int64_t> found = whole_if(key, least, most);
  if (!found) fail(key, "is missing");
  return *found;
}

std::optional<std::int64_t> GgufMetadata::same_if(std::string_view key, std::int64_t least,
                                                  std::int64_t most) const {
  const GgufValue* value = find(key);
  if (value == nullptr || value->kind != GgufKind::array) return whole_if(key, least, most);
  const std::vector<std::int64_t> all = wholes(key);
  if (all.empty()) fail(key, "is an empty array");
  for (const std::int64_t number : all) {
    if (number != all.front()) {
      fail(key, "differs from layer to layer, which is not supported by this version");
    }
  }
  if (all.front() < least || all.front() > most) {
    fail(key, fmt::format("must have whole numbers from {} to {}", least, most));
  }
  return all.front();
}

std::optional<double> GgufMetadata::real_if(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  double number = NAN;
  if (value->kind == GgufKind::float64) {
    number = number_at<double>(value->bytes);
  } else if (value->kind == GgufKind::float32) {
    std::array<char, 48> digits{};
    const auto written =
        std::to_chars(digits.data(), digits.data() + digits.size(), number_at<float>(value->bytes));
    std::from_chars(digits.data(), written.ptr, number);
  } else if (const auto whole = whole_at(value->kind, value->bytes, 0)) {
    number = static_cast<double>(*whole);
  }
  if (!std::isfinite(number)) fail(key, "must be a finite number");
  return number;
}

const std::vector<std::string_view>& GgufMetadata::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "is missing");
  if (value->kind != GgufKind::array || value->element != GgufKind::string) {
    fail(key, "must be an array of texts");
  }
  return value->texts;
}

std::vector<std::int64_t> GgufMetadata::wholes(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "is missing");
  std::vector<std::int64_t> numbers;
  if (value->kind == GgufKind::array && value->element != GgufKind::array) {
    numbers.reserve(value->count);
    for (std::uint64_t i = 0; i < value->count; ++i) {
      const std::optional<std::int64_t> number = whole_at(value->element, value->bytes, i);
      if (!number) fail(key, "must be an array of whole numbers");
      numbers.push_back(*number);
    }
    return numbers;
  }
  fail(key, "must be an array of whole numbers");
}

std::vector<float> GgufMetadata::reals(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "is missing");
  if (value->kind != GgufKind::array || value->element != GgufKind::float32) {
    fail(key, "must be an array of float32 numbers");
  }
  std::vector<float> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  return numbers;
}

}  // namespace kvloupe

#include "tests/support/gguf_bytes.h"

#include <algorithm>

namespace kvloupe::test {

namespace {

enum Kind : std::uint32_t {
  kInt32 = 5,
  kUint32 = 4,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9
};

std::string array_head(std::uint32_t element, std::size_t count) {
  return bytes_of_number(element) + bytes_of_number(static_cast<std::uint64_t>(count));
}

void pad(std::string& bytes, std::uint64_t alignment) {
  bytes.append((alignment - bytes.size() % alignment) % alignment, '\0');
}

}  // namespace

std::string gguf_string(const std::string& text) {
  return bytes_of_number(static_cast<std::uint64_t>(text.size())) + text;
}

GgufBytes& GgufBytes::raw(const std::string& key, std::uint32_t kind, const std::string& bytes) {
  without(key);
  values_.emplace_back(key, bytes_of_number(kind) + bytes);
  return *this;
}

GgufBytes& GgufBytes::without(const std::string& key) {
  std::erase_if(values_, [&](const auto& value) { return value.first == key; });
  return *this;
}

GgufBytes& GgufBytes::without_tensor(const std::string& name) {
  std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  return *this;
}

GgufBytes& GgufBytes::text(const std::string& key, const std::string& value) {
  return raw(key, kString, gguf_string(value));
}
GgufBytes& GgufBytes::whole(const std::string& key, std::uint32_t value) {
  return raw(key, kUint32, bytes_of_number(value));
}
GgufBytes& GgufBytes::real(const std::string& key, float value) {
  return raw(key, kFloat32, bytes_of_number(value));
}
GgufBytes& GgufBytes::flag(const std::string& key, bool value) {
  return raw(key, kBool, std::string(1, value ? '\1' : '\0'));
}
GgufBytes& GgufBytes::texts(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = array_head(kString, values.size());
  for (const std::string& value : values) bytes += gguf_string(value);
  return raw(key, kArray, bytes);
}
GgufBytes& GgufBytes::wholes(const std::string& key, const std::vector<std::int32_t>& values) {
  std::string bytes = array_head(kInt32, values.size());
  for (const std::int32_t value : values) bytes += bytes_of_number(value);
  return raw(key, kArray, bytes);
}
GgufBytes& GgufBytes::reals(const std::string& key, const std::vector<float>& values) {
  std::string bytes = array_head(kFloat32, values.size());
  for (const float value : values) bytes += bytes_of_number(value);
  return raw(key, kArray, bytes);
}

GgufBytes& GgufBytes::tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::uint32_t type, std::string bytes) {
  tensors.push_back({name, std::move(shape), type, std::move(bytes)});
  return *this;
}

std::string GgufBytes::bytes() const {
  const bool usual = alignment == 32;
  std::string file = "GGUF" + bytes_of_number(version) +
                     bytes_of_number(static_cast<std::uint64_t>(tensors.size())) +
                     bytes_of_number(static_cast<std::uint64_t>(values_.size() + !usual));
  for (const auto& [key, value] : values_) file += gguf_string(key) + value;
  if (!usual) {
    file += gguf_string("general.alignment") + bytes_of_number(std::uint32_t{kUint32}) +
            bytes_of_number(static_cast<std::uint32_t>(alignment));
  }
  std::string data;
  for (const Tensor& tensor : tensors) {
    pad(data, alignment);
    file +=
        gguf_string(tensor.name) + bytes_of_number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      file += bytes_of_number(static_cast<std::uint64_t>(*size));
    }
    file += bytes_of_number(tensor.type) + bytes_of_number(static_cast<std::uint64_t>(data.size()));
    data += tensor.bytes;
  }
  pad(file, alignment);
  return file + data;
}

}  // namespace kvloupe::test

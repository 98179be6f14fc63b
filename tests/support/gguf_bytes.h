#pragma once
// Writes GGUF files, from the format's description alone.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::test {

class GgufBytes {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // written as a key where it is not 32

  GgufBytes& text(const std::string& key, const std::string& value);
  GgufBytes& whole(const std::string& key, std::uint32_t value);
  GgufBytes& real(const std::string& key, float value);
  GgufBytes& flag(const std::string& key, bool value);
  GgufBytes& texts(const std::string& key, const std::vector<std::string>& values);
  GgufBytes& wholes(const std::string& key, const std::vector<std::int32_t>& values);
  GgufBytes& reals(const std::string& key, const std::vector<float>& values);
  /// A value as it stands in the file: its kind and bytes.
  GgufBytes& raw(const std::string& key, std::uint32_t kind, const std::string& bytes);
  GgufBytes& without(const std::string& key);
  /// `shape` row-major, `bytes` as `type` packs them.
  GgufBytes& tensor(const std::string& name, std::vector<std::int64_t> shape, std::uint32_t type,
                    std::string bytes);
  GgufBytes& without_tensor(const std::string& name);

  std::string bytes() const;

  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::uint32_t type;
    std::string bytes;
  };
  std::vector<Tensor> tensors;

 private:
  std::vector<std::pair<std::string, std::string>> values_;  // kind and value as bytes
};

template <typename Number>
std::string bytes_of_number(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
/// The length, then the bytes.
std::string gguf_string(const std::string& text);

}  // namespace kvloupe::test

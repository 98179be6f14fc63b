#pragma once
// The header of a GGUF file: the model's settings, and the tensors with their places. Without
// libtorch. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// Kinds of values, with the numbers of the file.
enum class GgufKind : std::uint32_t {
  uint8 = 0,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  boolean,
  string,
  array,
  uint64,
  int64,
  float64
};

/// One value as it lies in the file, whose bytes it refers to.
struct GgufValue {
  GgufKind kind = GgufKind::uint8;
  GgufKind element = GgufKind::uint8;   // of an array
  std::uint64_t count = 1;              // of an array's elements
  std::span<const std::byte> bytes;     // the numbers, or the text's bytes; little-endian
  std::vector<std::string_view> texts;  // of an array of strings
};

/// One tensor as the header describes it.
struct GgufTensor {
  std::uint32_t type = 0;           // see gguf_type.h
  std::vector<std::int64_t> shape;  // row-major: [rows, columns], the file's order turned round
  std::uint64_t begin = 0;          // bytes, from the start of the file
  std::uint64_t end = 0;

  std::int64_t numbers() const;
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> values;
  std::map<std::string, GgufTensor, std::less<>> tensors;
};

/// Reads the header of a whole file, versions 2 and 3, and checks it against the file's size: every
/// tensor's bytes lie inside the file, begin at a multiple of the alignment, and do not overlap.
/// The result refers to `file`. Memory is bounded by the file's size. Throws FileError, which names
/// `path` and the tensor or key.
GgufHeader read_gguf_header(const std::string& path, std::span<const std::byte> file);

/// The values of a header, with checks of their types. Errors name the file and the key.
class GgufMetadata {
 public:
  /// Refers to `values`.
  GgufMetadata(std::string path, const std::map<std::string, GgufValue, std::less<>>& values)
      : path_(std::move(path)), values_(&values) {}

  /// FileError "PATH: KEY PROBLEM".
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;
  const std::string& path() const { return path_; }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return *values_; }

  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// UTF-8, of at most `longest` bytes.
  std::string text(std::string_view key, std::size_t longest = 4096) const;
  std::optional<std::string> text_if(std::string_view key, std::size_t longest = 4096) const;
  std::optional<bool> flag_if(std::string_view key) const;
  /// A whole number from `least` to `most`, of any kind of whole number.
  std::int64_t whole(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::optional<std::int64_t> whole_if(std::string_view key, std::int64_t least,
                                       std::int64_t most) const;
  /// The same, or the one number of an array whose elements are all equal (one per layer).
  std::optional<std::int64_t> same_if(std::string_view key, std::int64_t least,
                                      std::int64_t most) const;
  /// A finite number. A float32 becomes the shortest decimal that gives it, as it was written in a
  /// config: 1e-05 and not 9.99999974e-06.
  std::optional<double> real_if(std::string_view key) const;
  /// An array of strings.
  const std::vector<std::string_view>& texts(std::string_view key) const;
  /// An array of whole numbers, or of float32 numbers.
  std::vector<std::int64_t> wholes(std::string_view key) const;
  std::vector<float> reals(std::string_view key) const;

 private:
  std::string path_;
  const std::map<std::string, GgufValue, std::less<>>* values_;
};

}  // namespace kvloupe

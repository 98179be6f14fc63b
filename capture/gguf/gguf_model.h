#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/gguf/gguf_header.h"

namespace kvloupe {

class MappedFile;

/// A GGUF model in one file, or in several (NAME-00001-of-0000N.gguf …). The files stay mapped.
class GgufModel {
 public:
  /// Throws FileError: see read_gguf_header; a part other than the first; a part that is missing,
  /// or is not what its name says; a tensor in two parts; fewer tensors than the first part says.
  explicit GgufModel(const std::filesystem::path& first);

  const std::filesystem::path& path() const { return path_; }
  /// Metadata of the first file, whose values count.
  GgufMetadata metadata() const { return {path_.string(), parts_.front().header.values}; }
  /// "llama", "qwen2", …: key general.architecture.
  std::string architecture() const { return metadata().text("general.architecture"); }

  struct Found {
    const std::filesystem::path* file;  // that holds it
    const GgufTensor* tensor;
    std::span<const std::byte> bytes;
  };
  bool has(std::string_view name) const;
  /// Throws FileError if there is no such tensor.
  Found tensor(std::string_view name) const;
  std::vector<std::string> names() const;
  /// The types of the matrices, that of most numbers first: "Q4_K". Of a mixture also what the file
  /// says of the whole (general.file_type): "Q4_K_M (Q5_0, Q8_0, Q4_K)".
  std::string types() const;
  /// Keeps a file mapped that bytes of Found refer to.
  std::shared_ptr<const void> keep_alive() const { return maps_; }

 private:
  struct Part {
    std::filesystem::path path;
    GgufHeader header;
    std::span<const std::byte> file;
  };
  std::filesystem::path path_;
  std::shared_ptr<std::vector<std::unique_ptr<MappedFile>>> maps_;
  std::vector<Part> parts_;
};

}  // namespace kvloupe

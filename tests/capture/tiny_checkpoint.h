#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/gguf_bytes.h"

namespace kvloupe::test {

/// A small random checkpoint of one of the families, written without capture's code, under the
/// names that the family's files have. The same options give the same weights.
struct TinyCheckpoint {
  std::string architecture = "LlamaForCausalLM";
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 6;
  int hidden_size = 20;  // not heads · head_dim
  int intermediate_size = 28;
  int vocab_size = 40;
  bool tied = true;
  unsigned seed = 1;
  int max_position_embeddings = 128;
  std::string more = "{}";  // fields that replace or join those of config.json, null among them

  std::string config_text() const;
  /// Writes config.json and model.safetensors (F32) into an existing folder.
  void write(const std::filesystem::path& folder) const;
  /// The same with the weights in so many files and model.safetensors.index.json.
  void write_sharded(const std::filesystem::path& folder, int shards) const;
  /// The same as a GGUF file in F32, without a tokenizer. (Scaling: llama3, linear, yarn with a
  /// factor and an original context.)
  GgufBytes gguf() const;

 private:
  struct Weight {
    std::string name;
    std::vector<int> shape;
    std::string bytes;
    std::string dtype = "F32";
  };
  std::vector<Weight> weights() const;
};

/// A safetensors file of this header and data.
std::string safetensors_bytes(const std::string& header, const std::string& data);

void write_file(const std::filesystem::path& path, const std::string& bytes);

/// `count` token ids below `vocab_size`, white space between them.
std::string random_ids_text(int count, int vocab_size, unsigned seed);

/// The folder of the real checkpoint beside the project, if it is there.
std::filesystem::path stories_folder();

}  // namespace kvloupe::test

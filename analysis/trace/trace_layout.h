#pragma once
// Names and sizes of trace format version 1, shared by its only reader and writer.

#include <string>

namespace kvloupe::layout {

inline constexpr const char* kFormat = "kvloupe-trace";
inline constexpr int kVersion = 1;
/// Tokens per chunk of the states: [1, kStateChunk, d].
inline constexpr int kStateChunk = 256;
/// Side of a chunk of the attention matrix: what lies wholly above the diagonal is never written.
inline constexpr int kAttentionChunk = 128;

inline std::string layer_group(int layer) { return "/layers/" + std::to_string(layer); }
inline std::string layer_dataset(int layer, const char* name) {
  return layer_group(layer) + "/" + name;
}

}  // namespace kvloupe::layout

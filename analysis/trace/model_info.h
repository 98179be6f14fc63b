#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe {

/// Which coordinates of a head's vector RoPE rotates together.
enum class RopePairing {
  half,         // (j, j + d/2): Hugging Face
  interleaved,  // (2j, 2j+1): the original Llama code
};

/// ModelInfo::rope_scaling of a layer that does not rotate (SmolLM3, Cohere 2): its `rope_theta` in
/// the trace is 0.
inline constexpr const char* kNoRotation = "no rotation";

/// `/model` of a trace.
struct ModelInfo {
  std::string name;
  std::string architecture;
  int num_layers = 0;    // L
  int num_heads = 0;     // Hq, query heads
  int num_kv_heads = 0;  // Hk, key-value heads; divides num_heads
  int head_dim = 0;      // d
  int hidden_size = 0;   // D
  int vocab_size = 0;
  double rope_theta = 10000.0;
  std::string rope_scaling;  // JSON, "null" for none
  RopePairing rope_pairing = RopePairing::half;
  int rotary_dim = 0;  // coordinates of a head that RoPE rotates, the first ones; 0: all
  /// W: a query sees the W tokens up to its own; 0: all of them. A layer may have its own
  /// (Trace::window).
  int sliding_window = 0;
  std::string config;  // the whole config.json
  // How the file of the weights stores them, where that says something: "GGUF", its most common
  // type such as "Q4_K", and the file's name. Else empty.
  std::string weights_format, weights_type, weights_file;

  /// Query heads that share one key-value head.
  int group_size() const { return num_heads / num_kv_heads; }
  /// The key-value head that serves a query head.
  int head_of(int query_head) const { return query_head / group_size(); }
};

/// The first token that the query of token `query` sees through a window of this many tokens, its
/// own included; 0 without a window (0).
constexpr int first_seen(int query, int window) {
  return window > 0 && query >= window ? query - window + 1 : 0;
}

/// Whether a policy sees the question of its prompt.
enum class Compression {
  regular,      // it evicts after every block and every generated token
  context_only  // it evicts while the context is read and stops at the question
};
/// "regular" or "context-only".
const char* compression_name(Compression compression);

/// The policy of a run whose cache keeps everything.
inline constexpr const char* kFullCache = "full";

/// `/run` of a trace.
struct RunInfo {
  int block_size = 0;  // B
  int prompt_length = 0;
  int generated = 0;  // T = prompt_length + generated
  std::string dtype = "f32";
  std::string device = "cpu";
  int threads = 0;
  std::string policy = kFullCache;  // or a spec (closed loop)
  int budget = 0;                   // resolved entries per head; 0 with policy "full"
  std::uint64_t seed = 0;
  double seconds = 0.0;
  double attention_scale = 0.0;        // the factor of q·k in the logits, usually 1/sqrt(d)
  std::string positions = "original";  // or "compact"
  Compression compression = Compression::regular;

  int tokens() const { return prompt_length + generated; }
  /// Whether a policy was in the model's cache.
  bool closed_loop() const { return policy != kFullCache; }
};

/// The norm of a vector.
enum class Norm { l1, l2 };

/// One step: the tokens [first, end) processed together.
struct Block {
  int first = 0;
  int end = 0;
  int size() const { return end - first; }
};

/// One line of `/layers/{l}/merges`: at this step the entry of token `from` became, with this
/// weight, a part of the entry of token `into`; the entry `into` is listed as a part of itself.
struct MergedEntry {
  std::int32_t head = 0;
  std::int32_t step = 0;
  std::int32_t into = 0;
  std::int32_t from = 0;
  float weight = 0.0F;
  bool operator==(const MergedEntry&) const = default;
};

/// `/tokens` of a trace.
struct TokenTable {
  std::vector<std::int32_t> ids;  // [T]
  /// [T], empty if the trace has none. As read: valid UTF-8 with the text's own line feeds and
  /// backslashes, in which \xNN stands for a byte that is none of UTF-8. To a writer: any bytes.
  std::vector<std::string> text;
  std::vector<std::uint8_t> segment;  // [T] index into segment_names; empty if the trace has none
  std::vector<std::string> segment_names;
};

/// The block size that stands for the whole prompt, however long it is.
inline constexpr int kWholePrompt = std::numeric_limits<int>::max();

/// Divides the prompt into blocks of `block` tokens, then adds one step per generated token. With
/// block 0 or block >= prompt_length the prompt is one step. No block crosses `border`, a token of
/// the prompt at which a new one begins (0: none).
std::vector<Block> make_blocks(int prompt_length, int generated, int block, int border = 0);

}  // namespace kvloupe

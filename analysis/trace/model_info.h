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

/// The state that a layer keeps of earlier tokens (docs/trace-format.md, *Version 2*).
enum class LayerKind {
  attention,  // keys and values of each of its heads
  none,       // nothing that a policy could evict: a state of fixed size, or nothing
  shared,     // it has queries, and reads the keys and values of an earlier layer
  latent      // one head whose values are a part of its keys (MLA)
};
/// "attention", "none", "shared" or "latent".
const char* layer_kind_name(LayerKind kind);

/// Which tokens the query of a token sees, its own included: all up to it, the last of them through
/// a sliding window, or those of its chunk.
struct Reach {
  int window = 0;  // W: the W tokens up to its own; 0: without a window
  int chunk = 0;   // C: those from a multiple of C on; 0: without chunks
  int tokens = 0;  // T, where known: a token after the last sees what the last one sees

  constexpr Reach() = default;
  constexpr Reach(int window) : window(window) {}
  constexpr Reach(int window, int chunk, int tokens)
      : window(window), chunk(chunk), tokens(tokens) {}
  constexpr bool all() const { return window == 0 && chunk == 0; }
  /// The most tokens that a query sees; 0: all.
  constexpr int span() const { return chunk > 0 ? chunk : window; }
  /// The kind of limit, in a word.
  constexpr const char* name() const { return chunk > 0 ? "chunk" : "window"; }
  bool operator==(const Reach&) const = default;
};

/// The first token that the query of token `query` sees.
constexpr int first_seen(int query, const Reach& reach) {
  if (reach.chunk > 0) {
    const int asking = reach.tokens > 0 && query >= reach.tokens ? reach.tokens - 1 : query;
    return asking - asking % reach.chunk;
  }
  return reach.window > 0 && query >= reach.window ? query - reach.window + 1 : 0;
}
/// The first token after `token` whose query does not see it; at most `tokens`.
constexpr int first_unseeing(int token, const Reach& reach, int tokens) {
  int end = tokens;
  if (reach.window > 0 && token < tokens - reach.window) end = token + reach.window;
  if (reach.chunk > 0 && token - token % reach.chunk < tokens - reach.chunk) {
    end = token - token % reach.chunk + reach.chunk;
  }
  return end;
}

/// `/model` of a trace; or of one of its layers (Trace::layer_model).
struct ModelInfo {
  std::string name = {};
  std::string architecture = {};
  int num_layers = 0;  // L
  // In `/model`, the numbers of most layers. A layer without a cache has 0 heads.
  int num_heads = 0;     // Hq, query heads
  int num_kv_heads = 0;  // Hk, key-value heads; divides num_heads
  int head_dim = 0;      // d, of a query or a key
  int value_dim = 0;     // of a value; 0: d
  int hidden_size = 0;   // D
  int vocab_size = 0;
  double rope_theta = 10000.0;
  std::string rope_scaling = {};  // JSON, "null" for none
  RopePairing rope_pairing = RopePairing::half;
  int rotary_dim = 0;    // coordinates of a head that RoPE rotates; 0: all
  int rotary_start = 0;  // the first of them
  /// W: a query sees the W tokens up to its own; 0: all of them. A layer may have its own
  /// (Trace::window).
  int sliding_window = 0;
  /// The chunk size of one layer: a query sees the tokens of its own chunk; 0: without chunks.
  int chunk_size = 0;
  int chunked_tokens = 0;   // T of a trace with chunks (Reach::tokens)
  std::string config = {};  // the whole config.json
  // How the file of the weights stores them, if this is informative: "GGUF", its types such as
  // "Q4_K" or "Q4_K_M (Q5_0, Q4_K)", and the file's name. Else empty.
  std::string weights_format = {}, weights_type = {}, weights_file = {};

  /// Whether the heads of latent attention were captured one by one, which no cache holds.
  bool expanded_latent = false;
  /// Heads of each layer's own cache [L], 0 where it has none; empty: num_kv_heads in all layers.
  std::vector<int> cache_heads = {};
  // Fields of one layer.
  LayerKind kind = LayerKind::attention;
  std::string mixer = {};  // what a layer without a cache is, in words; may be empty
  int shares_with = -1;    // of kind shared: the layer whose keys and values it reads
  bool value_is_key_prefix = false;
  std::int64_t state_bytes = 0;  // of a state of fixed size beside or in place of the cache

  /// Whether the layer has queries, keys and values.
  bool attends() const { return kind != LayerKind::none; }
  /// Whether the layer holds a cache of its own, in which a policy decides.
  bool stores() const { return kind == LayerKind::attention || kind == LayerKind::latent; }
  Reach reach() const { return {sliding_window, chunk_size, chunked_tokens}; }
  int value_width() const { return value_dim > 0 ? value_dim : head_dim; }
  /// Heads of the cache of one layer: 0 where the layer has none of its own.
  int heads_in(int layer) const {
    return cache_heads.empty() ? num_kv_heads : cache_heads[static_cast<std::size_t>(layer)];
  }
  /// How many of the layers before `layer` have a cache of their own; with L: of all layers.
  int caches_before(int layer) const;
  int caches() const { return caches_before(num_layers); }
  /// Heads of the caches of all layers before `layer`; with L: of all layers.
  int cache_heads_before(int layer) const;
  int all_cache_heads() const { return cache_heads_before(num_layers); }
  /// Query heads that share one key-value head.
  int group_size() const { return num_kv_heads > 0 ? num_heads / num_kv_heads : 1; }
  /// The key-value head that serves a query head.
  int head_of(int query_head) const { return query_head / group_size(); }
};

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
  std::vector<std::int32_t> ids = {};  // [T]
  /// [T], empty if the trace has none. As read: valid UTF-8 with the text's own line feeds and
  /// backslashes, in which \xNN is a byte that is not UTF-8. To a writer: any bytes.
  std::vector<std::string> text = {};
  /// [T] index into segment_names; empty if the trace has none.
  std::vector<std::uint8_t> segment = {};
  std::vector<std::string> segment_names = {};
};

/// The block size that stands for the whole prompt, however long it is.
inline constexpr int kWholePrompt = std::numeric_limits<int>::max();

/// Divides the prompt into blocks of `block` tokens, then adds one step per generated token. With
/// block 0 or block >= prompt_length the prompt is one step. No block crosses `border`, a token of
/// the prompt at which a new one begins (0: none).
std::vector<Block> make_blocks(int prompt_length, int generated, int block, int border = 0);

}  // namespace kvloupe

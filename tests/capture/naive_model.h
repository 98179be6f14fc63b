#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analysis/trace/model_info.h"

namespace kvloupe::test {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

/// One layer's states of a sequence, after RoPE: [head][token][coordinate].
struct NaiveStates {
  std::vector<Rows> query, key, value;
};

/// One entry of one head's cache.
struct NaiveEntry {
  int token = 0;
  Row key, value;  // the key turned to the token's index
  double log_size = 0.0;
};
using NaiveCaches = std::vector<std::vector<NaiveEntry>>;  // [kv head]

/// Changes one layer's caches after a block has attended.
using NaiveCut = std::function<void(int layer, int step, NaiveCaches& caches)>;

/// A decoder of the Llama, Mistral, Qwen2 and Qwen3 families in double precision, plain loops
/// written like the formulas. It reads config.json and F32 model.safetensors on its own and shares
/// no code with capture/. A bias or a head's norm is applied where the file has one.
class NaiveModel {
 public:
  explicit NaiveModel(const std::filesystem::path& folder);

  struct Result {
    Rows log_probabilities;           // [T][vocab], of the next token
    std::vector<NaiveStates> layers;  // [L]
    std::vector<Rows> hidden;         // [L][T][D], what leaves each layer
    Rows normed;                      // [T][D], what enters the head
  };
  /// The whole sequence at once, causal.
  Result run(const std::vector<std::int32_t>& ids) const;
  /// The same in blocks on a cache that `cut` changes. `compact`: keys and queries attend as turned
  /// to their place in the cache. States are those turned to the token's index all the same.
  Result run(const std::vector<std::int32_t>& ids, const std::vector<Block>& blocks,
             const NaiveCut& cut, bool compact) const;

  /// The input of a layer's attention for a token that enters the layer as `hidden`.
  Row attention_input(int layer, const Row& hidden) const;

  int window = 0;  // a query sees the last so many tokens up to its own; 0: all
  int num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0, hidden_size = 0,
      vocab_size = 0;

 private:
  /// y = W x + b, W [rows, x.size()] row-major.
  Row product(const std::string& weight, const Row& x) const;
  Row norm(const std::string& weight, const Row& x) const;
  /// hidden [m] of the block's tokens, in and out; appends to the states and caches.
  void run_layer(int layer, const Block& block, bool compact, Rows& hidden, NaiveStates& states,
                 NaiveCaches& caches) const;
  Row attend(const Row& query, int query_token, const std::vector<NaiveEntry>& cache,
             bool compact) const;
  void read_yarn(const nlohmann::json& scaling, double positions);
  Row rotated(const Row& x, int position) const;
  /// The angle by which pair j turns from one position to the next.
  double frequency(std::size_t pair) const;
  /// A head's part of a query or key, normed where the model does that, turned to its position.
  Row turned_head(const Row& x, int head, const std::string& norm_name, int position) const;

  std::map<std::string, std::vector<float>> weights_;
  double rms_norm_eps_ = 1e-6, rope_theta_ = 10000.0;
  std::string rope_type_ = "default";
  double rope_factor_ = 1.0, low_factor_ = 1.0, high_factor_ = 1.0, original_context_ = 0.0;
  double yarn_first_ = 0.0, yarn_last_ = 0.0;  // the pairs between which frequencies are blended
  double stretch_ = 1.0;                       // of rotated queries and keys
  bool tied_ = false;
};

/// softmax(scale · q·k_j) over keys 0 … last, 0 for those outside the window; also its log-sum-exp.
Row naive_attention_row(const Row& query, const Rows& keys, std::size_t last, double scale,
                        double* logsumexp = nullptr, int window = 0);

}  // namespace kvloupe::test

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
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

/// A decoder of every family that capture/ runs, in double precision, plain loops written like the
/// formulas. It reads config.json and model.safetensors (F32, and experts in MXFP4) on its own and
/// shares no code with capture/. A bias or a norm is applied where the file has one.
class NaiveModel {
 public:
  explicit NaiveModel(const std::filesystem::path& folder);

  struct Result {
    Rows log_probabilities;           // [T][vocab], of the next token
    std::vector<NaiveStates> layers;  // [L]
    std::vector<Rows> hidden;         // [L][T][D], what leaves each layer
    Rows normed;                      // [T][D], what enters the head
    // Whether the attention's output is added as W_O gives it, and the head gives the logits.
    bool plain_residual = true;
  };
  /// The whole sequence at once, causal.
  Result run(const std::vector<std::int32_t>& ids) const;
  /// The same in blocks on a cache that `cut` changes. `compact`: keys and queries attend as turned
  /// to their place in the cache. States are those turned to the token's index all the same.
  Result run(const std::vector<std::int32_t>& ids, const std::vector<Block>& blocks,
             const NaiveCut& cut, bool compact) const;

  /// The input of a layer's attention for a token that enters the layer as `hidden`.
  Row attention_input(int layer, const Row& hidden) const;

  int window = 0;            // the first layer's: a query sees so many tokens up to its own; 0: all
  std::vector<int> windows;  // [L]
  double scale = 0.0;        // of the products q·k
  int num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0, hidden_size = 0,
      vocab_size = 0;

 private:
  /// The rotation of a layer.
  struct Rope {
    bool rotates = true;
    double theta = 10000.0;
    std::string type = "default";
    double factor = 1.0, low = 1.0, high = 1.0, original_context = 0.0;
    double yarn_first = 0.0, yarn_last = 0.0;  // the pairs between which frequencies are blended
    double stretch = 1.0;                      // of rotated queries and keys
  };
  void read_layers(const nlohmann::json& config);
  Rope read_rope(const nlohmann::json& scaling, double theta, double positions) const;
  void read_yarn(const nlohmann::json& scaling, double positions, Rope& rope) const;
  void read_weights(const std::filesystem::path& path);

  /// y = W x + b, W [rows, x.size()] row-major.
  Row product(const std::string& weight, const Row& x) const;
  Row norm(const std::string& weight, const Row& x) const;
  bool has(const std::string& weight) const { return weights_.count(weight + ".weight") != 0; }
  /// The product of a part of the attention or MLP, cut out of that of a joined matrix if need be.
  Row own_product(const std::string& layer, const char* part, const Row& x) const;
  double activated(double gate, double up) const;
  Row mlp(const std::string& layer, const Row& x) const;
  /// One expert of a layer.
  Row expert(const std::string& layer, int index, const Row& x) const;
  Row experts(const std::string& layer, const Row& x) const;
  /// h + factor · norm(y), the norm where the file has one under this name.
  Row added(const Row& h, const Row& y, const std::string& norm_name) const;
  /// hidden [m] of the block's tokens, in and out; appends to the states and caches.
  void run_layer(int layer, const Block& block, bool compact, Rows& hidden, NaiveStates& states,
                 NaiveCaches& caches) const;
  Row attend(const Row& query, int query_token, const std::vector<NaiveEntry>& cache, bool compact,
             int layer, int head) const;
  Row rotated(const Row& x, int position, const Rope& rope) const;
  /// The angle by which pair j turns from one position to the next.
  double frequency(std::size_t pair, const Rope& rope) const;
  /// A head's part of a query or key, normed where the model does that, turned to its position.
  Row turned_head(const Row& x, int head, const std::string& norm_name, int position,
                  const Rope& rope) const;

  std::map<std::string, std::vector<float>> weights_;
  std::set<std::string> packed_;  // weights in MXFP4
  std::string family_;
  std::vector<Rope> ropes_;  // [L]
  double rms_norm_eps_ = 1e-6;
  double norm_offset_ = 0.0, embedding_factor_ = 1.0, residual_factor_ = 1.0, logits_divisor_ = 1.0;
  double attention_cap_ = 0.0, logits_cap_ = 0.0;
  int experts_ = 0, experts_per_token_ = 0;
  bool normalised_ = true;
  bool tied_ = false;
};

/// softmax(scale · q·k_j) over keys 0 … last, 0 for those outside the window; also its log-sum-exp.
/// With a cap c the logits are c · tanh(scale · q·k_j / c); a sink logit takes its part of the sum.
Row naive_attention_row(const Row& query, const Rows& keys, std::size_t last, double scale,
                        double* logsumexp = nullptr, int window = 0, double cap = 0.0,
                        const float* sink = nullptr);

}  // namespace kvloupe::test

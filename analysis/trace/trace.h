#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/output_weight.h"
#include "analysis/trace/probe_info.h"

namespace kvloupe {

class TraceDatasets;

/// A trace file, opened for reading. Opening reads the attributes, tokens and blocks and checks
/// every dataset's shape against them before anything large is allocated; states are read lazily,
/// per layer and head. All methods may be called from any thread (HDF5 is locked inside).
///
/// Throws FileError: missing, not HDF5, not a kvloupe trace, truncated, incomplete, a newer
/// format_version, a shape that disagrees with /model. UsageError: a layer or head out of range.
/// States with NaN or infinity throw WorkError naming layer, head and token.
class Trace {
 public:
  explicit Trace(const std::filesystem::path& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  const std::filesystem::path& path() const;
  /// Changes when the file's content does: size and modification time. Part of every cache key.
  const std::string& identity() const;
  /// The content of `/model`. Its heads and widths are those of most layers; see layer_model().
  const ModelInfo& model() const;
  const RunInfo& run() const;
  const TokenTable& tokens() const;
  /// Steps as the capture ran them; derived from /run where the file has none.
  const std::vector<Block>& blocks() const;
  int length() const { return run().tokens(); }  // T
  /// How many tokens a query of the layer sees, its own included: its sliding window; 0 if it has
  /// none, or if the window hides nothing because the trace is not longer than the window.
  int window(int layer) const;
  /// The tokens that a query of the layer sees: all up to its own, its window or its chunk.
  Reach reach(int layer) const;
  /// The reach of the layer whose queries see the fewest tokens.
  Reach narrowest_reach() const;
  /// Whether all layers have the same reach.
  bool same_reach() const;
  /// How the queries of the layer attend.
  LayerAttention attention(int layer) const;
  /// The model as one layer has it: model() with the layer's own kind, heads, widths and rotation,
  /// and window() as its sliding window. A layer without a cache has 0 heads.
  const ModelInfo& layer_model(int layer) const;
  /// The layers with a cache of their own, in which a policy decides; at least one.
  const std::vector<int>& storing_layers() const;
  /// Whether the layer has queries and keys: of its own, or those of another layer.
  bool attends(int layer) const;
  /// The heads of all layers that attend, those of shared caches once for each layer.
  int all_heads() const;
  /// The most heads, and the most query heads, of any layer.
  int most_heads() const;
  int most_query_heads() const;
  /// The program that wrote the file and the time (ISO 8601); empty if the file does not say.
  const std::string& generator() const;
  const std::string& created() const;

  // States have the numbers of layer_model(). They throw UsageError for a layer without a cache; of
  // a layer that reads another one's cache, keys and values are those of that layer.
  Matrix query(int layer, int query_head) const;  // [T,d], after RoPE
  /// [Hq,d], after RoPE: one token's, of all query heads. Throws UsageError for a token the trace
  /// lacks.
  Matrix queries_of_token(int layer, int token) const;
  Matrix key(int layer, int head) const;    // [T,d], after RoPE
  Matrix value(int layer, int head) const;  // [T,d]
  /// The states of a block's m tokens, all heads one after the other: [Hq·m,d], [Hk·m,d], [Hk·m,d].
  /// Throw UsageError for tokens that the trace lacks.
  Matrix queries(int layer, const Block& tokens) const;
  Matrix keys(int layer, const Block& tokens) const;
  Matrix values(int layer, const Block& tokens) const;
  /// The factors of the outputs of the layer's heads, [T,Hq·d of a value]; empty where the layer
  /// has no gate.
  Matrix gate(int layer) const;
  bool has_gate(int layer) const;
  /// [d,D]: W_O's slice for one query head; nothing if the trace has none.
  std::optional<OutputWeight> output_weight(int layer, int query_head) const;
  /// ‖v_i W_O‖ [T]: stored, or computed from value and output_weight; empty if the trace has
  /// neither.
  std::vector<float> value_out_norm(int layer, int query_head, Norm norm) const;
  /// [T] as stored; empty if the trace has none.
  std::vector<float> attention_logsumexp(int layer, int query_head) const;
  /// [T]: ‖x_t − x_{t−1}‖₂ of the residual stream x after the layer, 0 at the first token; of any
  /// layer. Empty if the trace has none.
  std::vector<float> residual_change(int layer) const;
  bool has_residual_change() const;  // in all layers
  bool has_output_weight() const;    // in all layers that attend
  /// Why the layer has none, in words; empty if the file does not say.
  const std::string& without_output_weight(int layer) const;
  bool has_lm_head() const;
  /// The ids whose rows of the output head the trace has in place of the whole head, ascending.
  const std::vector<std::int32_t>& head_row_ids() const;
  /// Whether the trace says all that TraceFinalNorm reads.
  bool has_final_norm() const;
  /// The second reading of the context (TraceProbe); nothing if the trace has none.
  const std::optional<ProbeInfo>& probe() const;

  /// Nothing if the trace has neither; k = 0 or an empty loss if one is missing.
  struct Predictions {
    int k = 0;
    std::vector<std::int32_t> token_ids;  // [T,k]
    std::vector<float> logprob;           // [T,k]
    std::vector<float> loss;              // [T]
  };
  std::optional<Predictions> predictions() const;
  /// The text of each token id [vocab], like tokens().text. Nothing if the
  /// trace has none.
  std::optional<std::vector<std::string>> vocabulary() const;
  /// [vocab,D]; nothing if the trace has none, or only rows of it (TraceFinalNorm::head_row).
  std::optional<Matrix> lm_head() const;
  /// [T,D]: the input of the output head, after the last norm; its product with lm_head() gives the
  /// logits. Nothing if the trace has none.
  std::optional<Matrix> final_hidden() const;
  /// Closed-loop traces: [T], the step at which each token left the head's cache; -1: it stayed.
  /// Each step is in the trace's range and not before the token's own step.
  std::optional<std::vector<std::int32_t>> evicted_at(int layer, int head) const;
  /// Closed-loop traces with merging: all heads of a layer, as stored; empty without merges. Heads,
  /// steps and tokens are in the trace's range, weights are finite.
  std::vector<MergedEntry> merges(int layer) const;

  /// One line per dataset: path, type, shape, bytes on disk. For `kvloupe info`.
  struct DatasetInfo {
    std::string path, type;
    std::vector<std::size_t> shape;
    std::size_t stored_bytes = 0;
  };
  std::vector<DatasetInfo> datasets() const;

  /// The open file, for the classes that read other parts of it.
  const TraceDatasets& file() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe

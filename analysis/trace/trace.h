#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

enum class Norm { l1, l2 };

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
  const ModelInfo& model() const;
  const RunInfo& run() const;
  const TokenTable& tokens() const;
  /// Steps as the capture ran them; derived from /run where the file has none.
  const std::vector<Block>& blocks() const;
  int length() const { return run().tokens(); }  // T
  /// How many tokens a query sees, its own included: the model's sliding window; 0 where that is
  /// none, or hides nothing because the trace is no longer than it.
  int window() const { return length() > model().sliding_window ? model().sliding_window : 0; }
  /// What wrote the file and when (ISO 8601); empty where it does not say.
  const std::string& generator() const;
  const std::string& created() const;

  Matrix query(int layer, int query_head) const;  // [T,d], after RoPE
  /// [Hq,d], after RoPE: one token's, of all query heads. Throws UsageError for a token the trace
  /// lacks.
  Matrix queries_of_token(int layer, int token) const;
  Matrix key(int layer, int head) const;    // [T,d], after RoPE
  Matrix value(int layer, int head) const;  // [T,d]
  /// [d,D]: W_O's slice for one query head; nothing where the trace has none.
  std::optional<Matrix> output_weight(int layer, int query_head) const;
  /// ‖v_i W_O‖ [T]: stored, else computed from value and output_weight; empty where neither is.
  std::vector<float> value_out_norm(int layer, int query_head, Norm norm) const;
  /// [T] as stored; empty where the trace has none.
  std::vector<float> attention_logsumexp(int layer, int query_head) const;
  /// [T,T] as stored (float16 softmax rows), for comparison only: scores never use it.
  std::optional<Matrix> stored_attention(int layer, int query_head) const;
  bool has_attention() const;
  bool has_output_weight() const;

  /// Nothing where the trace has neither; k = 0 or an empty loss where one is missing.
  struct Predictions {
    int k = 0;
    std::vector<std::int32_t> token_ids;  // [T,k]
    std::vector<float> logprob;           // [T,k]
    std::vector<float> loss;              // [T]
  };
  std::optional<Predictions> predictions() const;
  /// What a person sees of each token id [vocab], as tokens().text has it. Nothing where the trace
  /// does not say.
  std::optional<std::vector<std::string>> vocabulary() const;
  /// [vocab,D]
  std::optional<Matrix> lm_head() const;
  /// [T,D]: what enters the output head, behind the last norm; its product with lm_head() are the
  /// logits. Nothing where the trace has none.
  std::optional<Matrix> final_hidden() const;
  /// Closed-loop traces: [T], the step at which each token left the head's cache, -1: stayed. Each
  /// is within the trace's steps and not before the token's own.
  std::optional<std::vector<std::int32_t>> evicted_at(int layer, int head) const;
  /// Closed-loop traces with merging: all heads of a layer, as stored; empty where there are none.
  /// Heads, steps and tokens are within the trace's, weights finite.
  std::vector<MergedEntry> merges(int layer) const;

  /// One line per dataset: path, type, shape, bytes on disk. For `kvloupe info`.
  struct DatasetInfo {
    std::string path, type;
    std::vector<std::size_t> shape;
    std::size_t stored_bytes = 0;
  };
  std::vector<DatasetInfo> datasets() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe

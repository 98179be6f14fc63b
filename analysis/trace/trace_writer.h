#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/probe_info.h"

namespace kvloupe {

/// Contents of a trace, decided before the run.
struct TraceWriterOptions {
  bool store_f32 =
      false;  // states as float32; else float16, or float32 if a state overflows float16
  /// With store_f32: W_O is float16 all the same, unless that would change a number. For weights
  /// that the model's file holds as float16.
  bool half_output_weight = false;
  bool store_attention = false;  // [Hq,T,T] float16
  int top_k = 5;                 // of /predictions
  std::string fingerprint = {};  // of the model (model_files.h); empty: not known
  std::string chat = {};         // how the prompt was written as messages; empty: it was not
  /// The form of the weights that the trace takes from the cache folder (shared_weights.h); empty:
  /// it holds them. Needs the fingerprint.
  std::string shared_weights = {};
  std::vector<LayerAttributes> layers = {};  // [L], where layers differ from the model; else empty
};

/// Writes one trace, streamed block by block, in the lowest format version that describes it. The
/// file grows under a temporary name (UnfinishedFile). finish() writes `complete`, fsyncs and gives
/// it the target's name: an incomplete file never has it. Nothing is left of a writer that is
/// destroyed before finish().
///
/// `run.generated` in the constructor is the largest number of tokens that the run may generate;
/// finish() gets the actual number and cuts every dataset to it.
///
/// Every method throws FileError naming the target: folder missing or unwritable, disk full. Spans
/// are row-major float32; shapes in comments; m is the number of tokens of the block. Blocks must
/// arrive in token order; within a block, layers in any order.
class TraceWriter {
 public:
  TraceWriter(std::filesystem::path target, ModelInfo model, RunInfo run,
              TraceWriterOptions options = {});
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// States of tokens [first, first + m) of one layer, after RoPE: query [Hq,m,d], key and value
  /// [Hk,m,d], each with the layer's own numbers. A layer of kind shared has no keys and values,
  /// one whose values are a part of its keys has no values: empty spans. NaN or infinity throws
  /// WorkError naming layer, head and token.
  void write_states(int layer, int first, int m, std::span<const float> query,
                    std::span<const float> key, std::span<const float> value);
  /// Factors of each query's head outputs: [m,Hq·d of a value].
  void write_gate(int layer, int first, int m, std::span<const float> gate);
  /// Causal softmax rows of the block's queries: [Hq,m,n], n = first + m.
  void write_attention(int layer, int first, int m, std::span<const float> attention);
  /// Log-sum-exp of each row's scaled logits: [Hq,m].
  void write_attention_logsumexp(int layer, int first, int m, std::span<const float> values);
  /// W_O cut by query head: [Hq,d,D]. Also needed for the value norms below.
  void write_output_weight(int layer, std::span<const float> weight);
  /// ‖v_i W_O‖ per query head, L1 and L2: [Hq,m] each.
  void write_value_out_norms(int layer, int first, int m, std::span<const float> l1,
                             std::span<const float> l2);
  /// ‖x_t − x_{t−1}‖₂ of the residual stream x after the layer, 0 at the first token: [m]. Of any
  /// layer, with attention or not.
  void write_residual_change(int layer, int first, int m, std::span<const float> changes);
  /// The model's k most probable next tokens after each token of the block: ids and
  /// log-probabilities [m,k].
  void write_predictions(int first, int m, std::span<const std::int32_t> ids,
                         std::span<const float> logprobs);
  /// The input of the output head after each token of the block: [m,D].
  void write_final_hidden(int first, int m, std::span<const float> hidden);
  /// The last norm's weights [D] as they multiply, for an RMS norm without bias
  /// (trace_final_norm.h); and what it divides each token of the block by: [m].
  void write_final_norm(std::span<const float> weight);
  void write_final_rms(int first, int m, std::span<const float> rms);
  /// [vocab,D], stored as float16.
  void write_lm_head(std::span<const float> weight);
  /// In place of the whole head, the rows [n,D] of the sequence's tokens, stored as float16: the
  /// row of each of their ids, which ascend.
  void write_lm_head_rows(std::span<const std::int32_t> ids, std::span<const float> weight);
  /// The bytes of each token id [vocab], as in TokenTable::text.
  void write_vocabulary(const std::vector<std::string>& texts);

  /// The second pass over the context, once; then the states of its tokens.
  void write_probe(const ProbeInfo& probe);
  /// States of the probe's tokens [first, first + m) of one layer, after RoPE: query [Hq,m,d], key
  /// [Hk,m,d]; and the norm of the input of the layer's attention: [m]. As write_states().
  void write_probe_states(int layer, int first, int m, std::span<const float> query,
                          std::span<const float> key, std::span<const float> input_norm);

  /// Closed-loop traces: the step at which each token left the head's cache, -1: stayed. [Hk,T]
  void write_evicted_at(int layer, std::span<const std::int32_t> evicted_at);

  /// Closed-loop traces with merging: once per layer that merged, in the order of the steps.
  void write_merges(int layer, std::span<const MergedEntry> merges);

  /// The first `count` tokens after the prompt were given, not chosen by the model; without this
  /// call it chose all. `own_answer`: ids that it wrote when nothing was given to it; may be empty.
  void write_given(int count, std::span<const std::int32_t> own_answer);

  /// A trace that its caller describes: every dataset by its path, and all attributes at the end.
  TraceWriter(std::filesystem::path target, int most_tokens);
  /// Tokens [first, first + m) of a dataset of this shape, `axis` being that of the tokens.
  void write_rows(const std::string& path, const std::vector<unsigned long long>& shape,
                  std::size_t axis, bool as_half, int first, int m, std::span<const float> values);
  /// The first m tokens of a head of such a dataset, as they are stored.
  void read_rows(const std::string& path, int head, int m, float* values);
  /// A whole dataset; `type`: of kvloupe_engine_writer_array().
  void write_whole(const std::string& path, int type, const std::vector<unsigned long long>& shape,
                   const void* data);
  /// The same of float32 `values`, in float16 if that is asked for and none overflows.
  void write_weight(const std::string& path, const std::vector<unsigned long long>& shape,
                    std::span<const float> values, bool as_half);
  /// Cuts it to its tokens. `said`: an object with the `texts` of the tokens, spelled, and the
  /// `attributes` of each path; a truth is a flag.
  void finish(int tokens, const nlohmann::json& said);

  /// Writes tokens, blocks, losses [T] (NaN at the last) and the final run attributes, then
  /// fsyncs and renames onto the target. `run.generated` and `blocks` are the true ones.
  void finish(const RunInfo& run, const TokenTable& tokens, const std::vector<Block>& blocks,
              std::span<const float> loss);

  /// Notes for the user, for example that states were stored as float32 because they overflow.
  const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe

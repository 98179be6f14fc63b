#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "analysis/trace/trace.h"
#include "tests/support/unwatched.h"

namespace kvloupe::test {

/// The contents of a made-up trace. Every number follows from these fields: the same options give
/// the same states.
struct SyntheticTraceOptions {
  int layers = 2;        // L
  int query_heads = 4;   // Hq
  int heads = 2;         // Hk
  int head_dim = 16;     // d
  int value_dim = 0;     // of a value; 0: d
  int hidden_size = 24;  // D
  int vocab_size = 50;
  int prompt_length = 96;
  int generated = 8;
  int question = 0;  // the last tokens of the prompt: a segment of that name
  int block = 32;
  int sliding_window = 0;  // W; 0: none
  int chunk_size = 0;      // C, of all layers; 0: none
  /// [L] or empty. Stored attention and log-sum-exps would be those of plain layers: leave them
  /// out.
  std::vector<LayerAttributes> layer_attributes = {};
  std::uint64_t seed = 1;

  int clusters = 0;         // keys scatter around so many centres; 0: independent normal keys
  float sink_logit = 6.0F;  // about how much token 0's logit exceeds the others'; 0: no sink

  bool store_f32 = false;
  bool attention = false;     // [Hq,T,T]
  bool output_weight = true;  // also the value norms
  bool value_out_norms = true;
  bool logsumexp = true;
  bool predictions = true;
  bool lm_head = false;       // also the last norm
  bool lm_head_rows = false;  // the rows of the same head that the tokens need, in its place
  bool vocabulary = false;
  bool text = true;         // also the segments
  bool evicted_at = false;  // also merges
  bool residual_change = false;

  int tokens() const { return prompt_length + generated; }
};

/// The states a synthetic trace is made from, already rounded to float16 where it stores that.
struct SyntheticStates {
  ModelInfo model;
  RunInfo run;
  std::vector<std::vector<Matrix>> query;           // [L][Hq] of [T,d]
  std::vector<std::vector<Matrix>> key;             // [L][Hk] of [T,d]
  std::vector<std::vector<Matrix>> value;           // [L][Hk] of [T,d]
  std::vector<std::vector<Matrix>> output_weight;   // [L][Hq] of [d,D]
  std::vector<std::vector<float>> residual_change;  // [L] of [T]; empty without
};

SyntheticStates make_synthetic_states(const SyntheticTraceOptions& options = {});

/// Writes the trace through TraceWriter, block by block as a capture does. Returns the states.
SyntheticStates write_synthetic_trace(const std::filesystem::path& target,
                                      const SyntheticTraceOptions& options = {});

/// Writes it and opens it.
std::shared_ptr<const Trace> open_synthetic_trace(const std::filesystem::path& target,
                                                  const SyntheticTraceOptions& options = {});

/// A closed-loop trace of the tokens of write_synthetic_trace(…, options): the policy's replay, at
/// a budget in entries, on states that differ from the full run's the more the deeper the layer
/// (layer 0 not at all), and other predictions. No merging policy. Writes and removes a trace
/// beside it.
void write_synthetic_closed_loop(const std::filesystem::path& target,
                                 const SyntheticTraceOptions& options, const std::string& policy,
                                 int budget);

}  // namespace kvloupe::test

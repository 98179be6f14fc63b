#pragma once

#include <cstdint>
#include <string>

#include "analysis/trace/trace.h"
#include "analysis/trace/trace_writer.h"

namespace kvloupe {

/// The bytes of the full cache of the trace's model in 16 bits, over all layers.
struct CacheBytes {
  double per_token = 0.0;  // keys and values of one token in every head of every cache
  double states = 0.0;     // states of fixed size, in the model's own type
};
CacheBytes cache_bytes(const Trace& trace);
/// The same of one entry, the key and the value of a token in one head of this layer's own cache.
double bytes_of_entry(const ModelInfo& layer);

/// Bytes of a trace's file, by what they hold.
struct TraceSize {
  std::uint64_t states = 0;          // queries, keys and values, those of a probe included
  std::uint64_t attention = 0;       // attention matrices
  std::uint64_t output_weights = 0;  // W_O of all layers
  std::uint64_t lm_head = 0;         // the whole one
  // Log-sum-exps, norms, hidden states, predictions, rows of the head, texts, HDF5's own.
  std::uint64_t other = 0;
  /// The bytes that weights kept in the cache folder take there, if they are yet to be written.
  /// They are not part of the file.
  std::uint64_t shared_weights = 0;

  std::uint64_t total() const { return states + attention + output_weights + lm_head + other; }
};

/// Contents of a trace that TraceWriterOptions do not decide.
struct TraceContents {
  bool lm_head = false;
  int lm_head_rows = 0;               // in place of the whole head
  std::uint64_t vocabulary_text = 0;  // bytes of the texts of all token ids; 0: none are stored
  int probe_tokens = 0;
};

/// Queries, keys and values of all layers for so many tokens.
std::uint64_t states_size(const ModelInfo& model, int tokens, bool store_f32);
/// The chunks of all attention matrices [Hq,T,T] that are written, those that meet the diagonal or
/// lie below it.
std::uint64_t attention_size(const ModelInfo& model, int tokens);
/// The output head as it is stored.
std::uint64_t lm_head_size(const ModelInfo& model);
/// Whether a trace of so many tokens holds the output head unasked: where that takes at most 16 MB,
/// and less than the states do.
bool holds_lm_head(const ModelInfo& model, int tokens, bool store_f32);
/// How many rows of the output head a trace without the whole head holds, of a sequence with so
/// many different tokens: one for each of them, or none where these would take more than 16 MB.
int held_lm_head_rows(const ModelInfo& model, int different_tokens);

/// The forecast size of the file that TraceWriter makes of a run, within a few per cent. It is an
/// upper limit if the run may generate fewer tokens than `run.generated`. The forecast leaves out
/// two facts that are unknown before the run: a policy's merges, and states that overflow float16.
TraceSize trace_size(const ModelInfo& model, const RunInfo& run, const TraceWriterOptions& options,
                     const TraceContents& contents);

/// "152 MB", with two or more digits.
std::string bytes_text(std::uint64_t bytes);

/// One line for the user: "the trace will take about 152 MB: 115 MB states (2000 tokens, float16),
/// 20 MB output projections, 17 MB other". `at_most`: the run may end before its last token.
std::string size_text(const TraceSize& size, const RunInfo& run, bool store_f32, bool at_most);

}  // namespace kvloupe

#include "analysis/trace/trace_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/trace/trace_layout.h"

namespace kvloupe {

double bytes_of_entry(const ModelInfo& layer) {
  constexpr double kNumber = 2.0;  // bytes
  // Values that are a part of the keys are not stored again.
  return kNumber * (layer.head_dim + (layer.value_is_key_prefix ? 0 : layer.value_width()));
}

CacheBytes cache_bytes(const Trace& trace) {
  CacheBytes bytes;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    bytes.states += static_cast<double>(model.state_bytes);
    if (!model.stores()) continue;
    bytes.per_token += model.num_kv_heads * bytes_of_entry(model);
  }
  return bytes;
}

namespace {

using layout::even_chunk;

// Bytes that HDF5 itself takes, measured on files of TraceWriter.
constexpr std::uint64_t kFile = 6000, kDataset = 420, kChunk = 8;
constexpr std::uint64_t kTokenText = 40;  // a short text in the heap, and where it is

std::uint64_t count(int number) { return static_cast<std::uint64_t>(number); }

/// Tokens of a dataset with their chunks filled up.
std::uint64_t filled(int tokens, int most) {
  const int chunk = even_chunk(tokens, most);
  return count((tokens + chunk - 1) / chunk) * count(chunk);
}
std::uint64_t chunks(int tokens, int most) {
  return filled(tokens, most) / count(even_chunk(tokens, most));
}

/// Numbers of states per token of all layers, without values for a probe.
std::uint64_t state_numbers(const ModelInfo& model, bool with_values) {
  const int heads = model.num_heads + (with_values ? 2 : 1) * model.num_kv_heads;
  return count(model.num_layers) * count(heads) * count(model.head_dim);
}

constexpr std::uint64_t kMostHead = 16'000'000;  // of what is stored unasked

/// A row of the output head.
std::uint64_t head_row_size(const ModelInfo& model) { return count(model.hidden_size) * 2; }

std::uint64_t state_bytes(bool store_f32) { return store_f32 ? 4 : 2; }

}  // namespace

std::uint64_t states_size(const ModelInfo& model, int tokens, bool store_f32) {
  return state_numbers(model, true) * filled(tokens, layout::kStateChunk) * state_bytes(store_f32);
}

std::uint64_t attention_size(const ModelInfo& model, int tokens) {
  constexpr double kMost = 0x1p62;  // so that sums stay within 64 bits
  const auto side = static_cast<double>(even_chunk(tokens, layout::kAttentionChunk));
  const auto rows = static_cast<double>(chunks(tokens, layout::kAttentionChunk));
  const double matrices = static_cast<double>(model.num_layers) * model.num_heads;
  return static_cast<std::uint64_t>(
      std::min(kMost, matrices * (rows * (rows + 1.0) / 2.0) * side * side * 2.0));
}

bool holds_lm_head(const ModelInfo& model, int tokens, bool store_f32) {
  const std::uint64_t head = lm_head_size(model);
  return head <= kMostHead && head < states_size(model, tokens, store_f32);
}

int held_lm_head_rows(const ModelInfo& model, int different_tokens) {
  return head_row_size(model) * count(different_tokens) <= kMostHead ? different_tokens : 0;
}

std::uint64_t lm_head_size(const ModelInfo& model) {
  return count(model.vocab_size) * head_row_size(model);
}

TraceSize trace_size(const ModelInfo& model, const RunInfo& run, const TraceWriterOptions& options,
                     const TraceContents& contents) {
  const int tokens = run.tokens();
  const std::uint64_t layers = count(model.num_layers), heads = count(model.num_heads);
  const std::uint64_t wide = sizeof(float);
  const std::uint64_t all_tokens = filled(tokens, layout::kStateChunk);
  const std::uint64_t state_chunks = chunks(tokens, layout::kStateChunk);

  TraceSize size;
  size.states = states_size(model, tokens, options.store_f32);
  if (options.store_attention) size.attention = attention_size(model, tokens);
  const bool half = !options.store_f32 || options.half_output_weight;
  if (options.shared_weights.empty()) {
    size.output_weights =
        layers * heads * count(model.head_dim) * count(model.hidden_size) * (half ? 2 : wide);
  }
  if (contents.lm_head) size.lm_head = lm_head_size(model);

  const std::uint64_t per_token_datasets = run.closed_loop() ? 2 : 3;  // norms and log-sum-exp
  size.other = layers * heads * per_token_datasets * all_tokens * wide;
  if (run.closed_loop()) {  // evicted_at
    size.other += layers * count(model.num_kv_heads) * count(tokens) * wide;
  }
  size.other += all_tokens * count(model.hidden_size) * wide;  // hidden states
  size.other += (filled(tokens, layout::kPredictionChunk) + count(model.hidden_size)) * wide +
                2 * kDataset;                                              // the last norm
  size.other += layers * filled(tokens, layout::kPredictionChunk) * wide;  // residual_change
  if (contents.lm_head_rows > 0) {
    size.other += count(contents.lm_head_rows) * (head_row_size(model) + 4) + 2 * kDataset;
  }
  size.other +=
      filled(tokens, layout::kPredictionChunk) * count(options.top_k) * 2 * wide;  // predictions
  size.other += count(tokens) * (kTokenText + 4 + 1 + 4);  // text, id, segment, loss
  const std::uint64_t generated = count(run.generated);
  size.other += 8 * (count(run.prompt_length) / count(run.block_size) + 1 + generated);  // blocks
  size.other += model.config.size();
  if (contents.vocabulary_text > 0) {
    size.other += contents.vocabulary_text + count(model.vocab_size) * 8;
  }

  std::uint64_t datasets = options.shared_weights.empty() ? 8 : 7;  // per layer
  std::uint64_t all_chunks =
      layers * (state_chunks * (heads + 2 * count(model.num_kv_heads) + per_token_datasets) +
                chunks(tokens, layout::kPredictionChunk));
  if (options.store_attention) {
    ++datasets;
    const std::uint64_t rows = chunks(tokens, layout::kAttentionChunk);
    all_chunks += layers * heads * rows * rows;
  }
  if (contents.probe_tokens > 0) {
    const std::uint64_t probe = filled(contents.probe_tokens, layout::kStateChunk);
    size.states += state_numbers(model, false) * probe * state_bytes(options.store_f32);
    size.other += count(contents.probe_tokens) * (layers + 1) * wide;
    datasets += 3;
    all_chunks += layers * (heads + count(model.num_kv_heads)) *
                  chunks(contents.probe_tokens, layout::kStateChunk);
  }
  size.other += kFile + layers * datasets * kDataset + all_chunks * kChunk;
  return size;
}

std::string bytes_text(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  for (const auto& [unit, name] : {std::pair{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}) {
    if (number < 0.9995 * unit) continue;
    return fmt::format("{:.{}f} {}", number / unit, number < 9.95 * unit ? 1 : 0, name);
  }
  return fmt::format("{} bytes", bytes);
}

std::string size_text(const TraceSize& size, const RunInfo& run, bool store_f32, bool at_most) {
  std::string text =
      fmt::format("the trace will take {} {}: {} states ({}{} tokens, {})",
                  at_most ? "at most" : "about", bytes_text(size.total()), bytes_text(size.states),
                  at_most ? "up to " : "", run.tokens(), store_f32 ? "float32" : "float16");
  for (const auto& [bytes, name] : {std::pair{size.attention, "attention matrices"},
                                    {size.output_weights, "output projections"},
                                    {size.lm_head, "output head"},
                                    {size.other, "other"}}) {
    if (bytes > 0) text += fmt::format(", {} {}", bytes_text(bytes), name);
  }
  if (size.shared_weights > 0) {
    text += fmt::format("; the weights of the model take {} more, once, in the cache folder",
                        bytes_text(size.shared_weights));
  }
  return text;
}

}  // namespace kvloupe

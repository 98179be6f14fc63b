#include "analysis/trace/trace_tables.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/base/text/utf8.h"
#include "analysis/trace/packed_dataset.h"
#include "analysis/trace/segments.h"
#include "analysis/trace/trace_layout.h"

namespace kvloupe {

using hdf5::Dataset;
using hdf5::Handle;
using Shape = TraceDatasets::Shape;
using Kind = TraceDatasets::Kind;

namespace {
bool is_spelled(hid_t texts) {
  return hdf5::read_integer(texts, layout::kSpelled).value_or(0) != 0;
}

/// A token's text in memory: valid UTF-8, with real line feeds. Bytes that are not UTF-8 stay
/// spelled. If the file does not say how its texts are spelled, only a piece that is nothing but a
/// line feed is recognised as a line feed.
std::string text_in_memory(const std::string& stored, bool spelled) {
  if (spelled) return readable_bytes(spelled_bytes(stored));
  return stored == "\\n" || stored == "<0x0A>" ? "\n" : stored;
}
}  // namespace

TokenTable read_token_table(const TraceDatasets& datasets, const ModelInfo& model, int count) {
  const Shape shape{hdf5::extent(count)};
  TokenTable tokens;
  tokens.ids =
      datasets.read_all<std::int32_t>("/tokens/ids", Kind::integer, shape, H5T_NATIVE_INT32);
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.ids[i] < 0 || tokens.ids[i] >= model.vocab_size) {
      throw hdf5::Failure(fmt::format("/tokens/ids: token {} is {}, outside the vocabulary of {}",
                                      i, tokens.ids[i], model.vocab_size));
    }
  }
  const std::string text_path = "/tokens/text";
  if (datasets.found(text_path, Kind::text, shape)) {
    const Dataset dataset = datasets.open(text_path, Kind::text, shape);
    const Handle space(H5Dget_space(dataset.id), H5Sclose, "cannot read " + text_path);
    tokens.text = hdf5::read_strings(
        dataset.type, space, shape[0],
        [&](hid_t memory, void* buffer) {
          hdf5::read_part(dataset, text_path, memory, {0}, shape, buffer);
          return herr_t{0};
        },
        "cannot read " + text_path + ": damaged or truncated");
    const bool spelled = is_spelled(dataset.id);
    for (std::string& text : tokens.text) text = text_in_memory(text, spelled);
  }
  const std::string segment_path = "/tokens/segment";
  if (datasets.found(segment_path, Kind::integer, shape)) {
    tokens.segment =
        datasets.read_all<std::uint8_t>(segment_path, Kind::integer, shape, H5T_NATIVE_UINT8);
    tokens.segment_names =
        hdf5::read_texts(datasets.open(segment_path, Kind::integer, shape).id, "names", 256);
    for (const std::uint8_t segment : tokens.segment) {
      if (segment >= tokens.segment_names.size()) {
        throw hdf5::Failure(
            fmt::format("{} names segment {}, but its attribute 'names' has only {}", segment_path,
                        segment, tokens.segment_names.size()));
      }
    }
  }
  return tokens;
}

std::vector<Block> read_blocks(const TraceDatasets& datasets, const TokenTable& tokens,
                               const RunInfo& run) {
  if (!hdf5::exists(datasets.file(), "/run/blocks")) {
    const bool divided = run.compression == Compression::context_only;
    return make_blocks(run.prompt_length, run.generated, run.block_size,
                       divided ? question_begin(tokens, run) : 0);
  }
  const hsize_t steps = [&] {
    const Dataset dataset = datasets.dataset("/run/blocks");
    return dataset.shape.empty() ? 0 : dataset.shape[0];
  }();
  const std::vector<std::int32_t> bounds =
      datasets.read_all<std::int32_t>("/run/blocks", Kind::integer, {steps, 2}, H5T_NATIVE_INT32);
  std::vector<Block> blocks;
  int at = 0;
  for (std::size_t i = 0; i < bounds.size(); i += 2) {
    const Block block{bounds[i], bounds[i + 1]};
    if (block.first != at || block.end <= at || block.end > run.tokens()) {
      throw hdf5::Failure(
          fmt::format("/run/blocks: step {} is [{}, {}), expected one from token {}", i / 2,
                      block.first, block.end, at));
    }
    blocks.push_back(block);
    at = block.end;
  }
  if (at != run.tokens()) {
    throw hdf5::Failure(
        fmt::format("/run/blocks ends at token {}, but there are {} tokens", at, run.tokens()));
  }
  return blocks;
}

std::vector<std::string> read_vocabulary(const TraceDatasets& datasets, const ModelInfo& model,
                                         hsize_t text_bytes) {
  const auto text = datasets.read_all<std::uint8_t>(layout::kVocabularyText, Kind::integer,
                                                    {text_bytes}, H5T_NATIVE_UINT8);
  const auto ends = datasets.read_all<std::int64_t>(
      layout::kVocabularyEnds, Kind::integer, {hdf5::extent(model.vocab_size)}, H5T_NATIVE_INT64);
  const bool spelled = is_spelled(datasets.dataset(layout::kVocabularyText).id);
  std::vector<std::string> words;
  words.reserve(ends.size());
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    if (end < begin || end > static_cast<std::int64_t>(text.size())) {
      throw hdf5::Failure(fmt::format("{}: token {} ends at {}, the one before it at {}, all at {}",
                                      layout::kVocabularyEnds, words.size(), end, begin,
                                      text.size()));
    }
    words.push_back(
        text_in_memory(escape_invalid_utf8({reinterpret_cast<const char*>(text.data()) + begin,
                                            static_cast<std::size_t>(end - begin)}),
                       spelled));
    begin = end;
  }
  return words;
}

std::vector<std::int32_t> read_evicted_at(const TraceDatasets& datasets, const ModelInfo& model,
                                          const std::vector<Block>& blocks, int layer, int head) {
  const int length = blocks.back().end;
  const std::vector<std::int32_t> all = datasets.guarded([&] {
    return datasets.read_all<std::int32_t>(
        layout::layer_dataset(layer, "evicted_at"), Kind::integer,
        {hdf5::extent(model.num_kv_heads), hdf5::extent(length)}, H5T_NATIVE_INT32);
  });
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(head) * length;
  std::vector<std::int32_t> own(first, first + length);
  const auto steps = static_cast<std::int32_t>(blocks.size());
  for (std::int32_t step = 0; step < steps; ++step) {
    const Block& block = blocks[static_cast<std::size_t>(step)];
    for (int token = block.first; token < block.end; ++token) {
      const std::int32_t left = own[static_cast<std::size_t>(token)];
      if (left == -1 || (left >= step && left < steps)) continue;
      throw FileError(
          datasets.path().string(),
          fmt::format("{}: token {} of head {} leaves at step {}, but enters at step {} of {}; "
                      "capture or convert the trace again",
                      layout::layer_dataset(layer, "evicted_at"), token, head, left, step, steps));
    }
  }
  return own;
}

std::vector<MergedEntry> read_merges(const TraceDatasets& datasets, const ModelInfo& model,
                                     int layer, std::size_t steps, int length) {
  const std::string name = layout::layer_dataset(layer, "merges");
  const Dataset dataset = datasets.open_merges(layer);
  std::vector<MergedEntry> merges(static_cast<std::size_t>(dataset.elements()));
  if (merges.empty()) return merges;
  const Handle memory = hdf5::merged_entry_type(false);
  hdf5::read_part(dataset, name, memory, {0}, dataset.shape, merges.data());
  const auto within = [](std::int32_t value, auto end) {
    return value >= 0 && value < static_cast<std::int64_t>(end);
  };
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const MergedEntry& entry = merges[i];
    if (within(entry.head, model.num_kv_heads) && within(entry.step, steps) &&
        within(entry.into, length) && within(entry.from, length) && std::isfinite(entry.weight)) {
      continue;
    }
    throw hdf5::Failure(fmt::format(
        "{}: line {} (head {}, step {}, into {}, from {}, weight {}) is outside the trace", name, i,
        entry.head, entry.step, entry.into, entry.from, entry.weight));
  }
  return merges;
}

}  // namespace kvloupe

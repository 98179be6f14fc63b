#pragma once
// The tables of a trace: everything beside the states, checked against the run they belong to.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace/model_info.h"
#include "analysis/trace/trace_datasets.h"

namespace kvloupe {

// All but read_evicted_at() throw hdf5::Failure and are called under hdf5::Lock.

/// The `count` tokens: ids within the vocabulary, and, where the file has them, texts and segments.
TokenTable read_token_table(const TraceDatasets& datasets, const ModelInfo& model, int count);

/// The steps, which cover the tokens one after another; a file without them has the run's.
std::vector<Block> read_blocks(const TraceDatasets& datasets, const TokenTable& tokens,
                               const RunInfo& run);

/// The text of every token of the vocabulary, valid UTF-8, of a file whose vocabulary has
/// `text_bytes` bytes.
std::vector<std::string> read_vocabulary(const TraceDatasets& datasets, const ModelInfo& model,
                                         hsize_t text_bytes);

/// [T] of a head: the step at which each token left, not before it came; −1 where it stayed. Throws
/// FileError.
std::vector<std::int32_t> read_evicted_at(const TraceDatasets& datasets, const ModelInfo& model,
                                          const std::vector<Block>& blocks, int layer, int head);

/// The merges of a layer, within the model, its `steps` and the `length` tokens.
std::vector<MergedEntry> read_merges(const TraceDatasets& datasets, const ModelInfo& model,
                                     int layer, std::size_t steps, int length);

}  // namespace kvloupe

#pragma once
// Names and sizes of the trace format, shared by its only reader and writer.

#include <string>
#include <string_view>

namespace kvloupe::layout {

inline constexpr const char* kFormat = "kvloupe-trace";
/// The newest version that is read. A file says the lowest that describes it: version 2 only where
/// a layer has another kind or another shape than `/model`, a gate, or chunks.
inline constexpr int kVersion = 2;
/// Most tokens in a chunk of the states: [1, even_chunk(T, kStateChunk), d].
inline constexpr int kStateChunk = 256;
/// Longest side of a chunk of the attention matrix; chunks wholly above the diagonal are never
/// written.
inline constexpr int kAttentionChunk = 128;
/// Most tokens in a chunk of the predictions.
inline constexpr int kPredictionChunk = 1024;

/// Tokens per chunk such that no chunk has more than `most`, there are as few chunks as possible,
/// and the last one is nearly full: HDF5 gives every chunk the same space.
constexpr int even_chunk(int tokens, int most) {
  if (tokens < 1) return 1;
  const int chunks = (tokens - 1) / most + 1;
  return (tokens - 1) / chunks + 1;
}

/// Dataset of a layer: what the outputs of its heads are multiplied by, [T, Hq · d of a value].
inline constexpr const char* kGate = "gate";

/// Dataset of a layer, with attention or not: how far the residual stream after the layer moves
/// from one token to the next, [T].
inline constexpr const char* kResidualChange = "residual_change";

/// Attribute of /model: the fingerprint of the model (model_files.h).
inline constexpr const char* kFingerprint = "fingerprint";

/// Attribute of /model in a trace that takes W_O and the output head from elsewhere: the form of
/// the weights (shared_weights.h). A file of weights has it, too, beside its own format.
inline constexpr const char* kSharedWeights = "shared_weights";
inline constexpr const char* kWeightsFormat = "kvloupe-weights";
inline constexpr int kWeightsVersion = 1;

/// Which tokens after the prompt were given (given_tokens.h): an attribute of /run, how many; and
/// the ids that the model wrote itself.
inline constexpr const char* kGiven = "given";
inline constexpr const char* kOwnAnswer = "/run/own_answer";

/// Attribute of the texts of tokens and of the vocabulary: 1 where they are written by
/// spell_bytes() (utf8.h). Without it a backslash may be one of the text's own.
inline constexpr const char* kSpelled = "spelled";

/// The texts of all token ids, joined, and the position at which each ends.
inline constexpr const char* kVocabularyText = "/model/vocabulary/text";
inline constexpr const char* kVocabularyEnds = "/model/vocabulary/ends";

/// The output head; or, in a trace without it, its rows of the sequence's tokens and the ids that
/// they belong to, ascending (trace_final_norm.h).
inline constexpr const char* kHead = "/model/lm_head";
inline constexpr const char* kHeadRows = "/model/lm_head_rows";
inline constexpr const char* kHeadRowIds = "/model/lm_head_row_ids";

/// The last norm (trace_final_norm.h): its weights, the attribute that says whether the norm takes
/// the mean out first, its bias; and what it divides each token's residual stream by.
inline constexpr const char* kFinalNorm = "/model/final_norm";
inline constexpr const char* kFinalNormCentred = "centred";
inline constexpr const char* kFinalNormBias = "/model/final_norm_bias";
inline constexpr const char* kFinalRms = "/predictions/final_rms";

/// The second pass over the context (probe_info.h): its group, the names of its attributes and
/// datasets, and those of its states in the group of each layer.
inline constexpr const char* kProbe = "/probe";
inline constexpr const char* kProbeKind = "kind";
inline constexpr const char* kProbeContextEnd = "context_end";
inline constexpr const char* kProbeIds = "/probe/ids";
inline constexpr const char* kProbePasses = "/probe/passes";
inline constexpr const char* kProbeQuery = "probe_query";
inline constexpr const char* kProbeKey = "probe_key";
inline constexpr const char* kProbeInputNorm = "probe_input_norm";

/// Members of /layers/{l}/merges, in the order of MergedEntry; all but the last are integers.
inline constexpr const char* kMergeMembers[] = {"head", "step", "into", "from", "weight"};

/// Whether kvloupe reads the numbers of this dataset: the table that the reader can open datasets
/// of (TraceDatasets::dataset) and that the check of a file goes through (trace_check.h), so that
/// none is read that was not checked.
bool is_read(std::string_view path);

inline std::string layer_group(int layer) { return "/layers/" + std::to_string(layer); }
inline std::string layer_dataset(int layer, const char* name) {
  return layer_group(layer) + "/" + name;
}

}  // namespace kvloupe::layout

#include "analysis/trace/trace_layout.h"

#include <algorithm>
#include <array>

namespace kvloupe::layout {

bool is_read(std::string_view path) {
  constexpr std::array<std::string_view, 19> kElsewhere = {"/run/blocks",
                                                           kOwnAnswer,
                                                           "/tokens/ids",
                                                           "/tokens/text",
                                                           "/tokens/segment",
                                                           kHead,
                                                           kHeadRows,
                                                           kHeadRowIds,
                                                           kFinalNorm,
                                                           kFinalNormBias,
                                                           kFinalRms,
                                                           kVocabularyText,
                                                           kVocabularyEnds,
                                                           kProbeIds,
                                                           kProbePasses,
                                                           "/predictions/token_ids",
                                                           "/predictions/logprob",
                                                           "/predictions/hidden",
                                                           "/predictions/loss"};
  constexpr std::array<std::string_view, 15> kOfLayers = {kGate,           "query",
                                                          "key",           "value",
                                                          "output_weight", "evicted_at",
                                                          "merges",        "sink_logits",
                                                          kProbeQuery,     "attention_logsumexp",
                                                          kProbeKey,       "value_out_norm_l1",
                                                          kProbeInputNorm, "value_out_norm_l2",
                                                          kResidualChange};
  const auto among = [](const auto& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (path.starts_with("/layers/")) return among(kOfLayers, path.substr(path.rfind('/') + 1));
  return among(kElsewhere, path);
}

}  // namespace kvloupe::layout

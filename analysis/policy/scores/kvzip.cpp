// kvzip: the most attention that any query pays to an entry when the model repeats the context.

#include <algorithm>
#include <vector>

#include "analysis/policy/kit/probe_attention.h"
#include "analysis/policy/kit/probe_tables.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// The scores of one layer: [Hk] of [E].
std::vector<std::vector<float>> scores_of(const ProbeInfo& probe, const LayerProbe& states,
                                          int sinks, bool keep_sinks, bool plus,
                                          const Progress& progress) {
  const ModelInfo& model = states.model;
  const auto length = static_cast<std::size_t>(probe.context_end);
  std::vector<std::vector<float>> scores(static_cast<std::size_t>(model.num_kv_heads),
                                         std::vector<float>(length, 0.0F));
  for (int query_head = 0; query_head < model.num_heads; ++query_head) {
    std::vector<float>& own = scores[static_cast<std::size_t>(model.head_of(query_head))];
    std::vector<float> most(length, 0.0F);  // of this query head
    for (const ProbePass& pass : probe.passes) {
      const ProbeColumns columns{std::min(sinks, pass.context.first), pass.context.first,
                                 pass.context.end};
      float* const chunk = most.data() + pass.context.first;
      probe_rows(probe, states, pass, query_head, columns, pass.tokens.first, progress,
                 [&](int query, std::span<const float> row) {
                   const float norm =
                       plus ? states.input_norms[static_cast<std::size_t>(query)] : 1.0F;
                   const float factor = norm > 0.0F ? 1.0F / norm : 0.0F;
                   for (std::size_t i = 0; i < row.size(); ++i) {
                     chunk[i] = std::max(chunk[i], row[i] * factor);
                   }
                 });
    }
    for (std::size_t token = 0; token < length; ++token) {
      const float norm =
          plus ? states.out_norms[static_cast<std::size_t>(query_head)][token] : 1.0F;
      own[token] = std::max(own[token], most[token] * norm);
    }
  }
  for (std::vector<float>& own : scores) {
    const std::size_t first = std::min(static_cast<std::size_t>(sinks), length);
    // No attention exceeds 1; times the norms of KVzip+ it may.
    if (keep_sinks) std::fill_n(own.begin(), first, plus ? ProbeTables::kAboveAll : 1.0F);
  }
  return scores;
}
}  // namespace

void kvzip(PolicyEntry& entry) {
  entry.summary = "the most attention an entry gets while the model repeats the context";
  entry.traits.reads_queries = false;
  entry.traits.reads_sequence = true;
  entry.traits.reads_probe = true;
  entry.formula =
      "score_i = largest over the probe's queries r of the pass that repeats i, and over the "
      "group, of softmax(s q_r·[first sinks, the pass's part of the context, the pass up to "
      "r])[i]; plus=1: times ||v_i W_O|| / ||h_r||. The first sinks: 1, or with plus=1 the largest "
      "score of any other entry + 1; what the probe does not cover: the largest score, at least 1";
  entry.source = "KVzip (Kim et al., 2025, arXiv 2505.23416); plus: KVzip+ of kvpress";
  entry.needs =
      "a probe (kvloupe-capture run --probe repeat); plus=1: W_O. It looks at no query of the "
      "prompt";
  entry.work =
      "a lookup per entry; once P C products of length d per query head, P tokens of the probe, C "
      "of a pass; and the model reads the context a second time";
  entry.differences =
      "its authors share the places over all heads of all layers: add global; each head here keeps "
      "at least one entry. kvloupe's request to repeat is plain text, without a chat template. "
      "kvpress gives the first tokens the largest score + 1; without plus, where scores are at "
      "most 1, 1 has the same effect";
  entry.parameters = {
      flag_parameter("plus", 0.0,
                     "1: times the norm of the entry's output, over that of the query's input"),
      count_parameter(
          "sinks", 4.0, 0, 1e6,
          "first tokens that take part in the softmax of every pass, and whose score is above all"),
      flag_parameter("keep_sinks", 1.0,
                     "0: the first tokens have the score that the probe gives them")};
  entry.example = "kvzip+global";
  entry.variants = {{"the paper: shared out over all heads", "kvzip+global"},
                    {"kvpress, layerwise", "kvzip+adakv(0)"},
                    {"KVzip+", "kvzip(plus=1)+global"}};
  entry.builder = ScoreBuilder{
      [](const SpecPart& part, const LayerContext& context) {
        const int sinks = part.count("sinks");
        const bool keep = part.count("keep_sinks") == 1;
        const bool plus = part.count("plus") == 1;
        return make_copyable<ProbeScore>(
            part, context, LayerProbeParts{false, plus},
            [=](const ProbeInfo& probe, const LayerProbe& states, const Progress& progress) {
              return scores_of(probe, states, sinks, keep, plus, progress);
            });
      },
      ScoreScale::common};
}

}  // namespace kvloupe::policies

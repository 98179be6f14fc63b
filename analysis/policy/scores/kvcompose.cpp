// kvcompose: the most attention an entry gets when the model reads the context a second time.

#include <algorithm>
#include <vector>

#include "analysis/policy/kit/probe_attention.h"
#include "analysis/policy/kit/probe_tables.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
/// The scores of one layer: [Hk] of [E].
std::vector<std::vector<float>> scores_of(const ProbeInfo& probe, const LayerProbe& states,
                                          bool values, bool add_mean, const Progress& progress) {
  const ModelInfo& model = states.model;
  const auto length = static_cast<std::size_t>(probe.context_end);
  const auto heads = static_cast<std::size_t>(model.num_kv_heads);
  std::vector<std::vector<double>> sums(heads, std::vector<double>(length, 0.0));
  for (int query_head = 0; query_head < model.num_heads; ++query_head) {
    std::vector<float> most(length, 0.0F);
    for (const ProbePass& pass : probe.passes) {
      // The queries of the tokens read again, without those of a request before them.
      const int from = pass.tokens.end - pass.context.size();
      probe_rows(probe, states, pass, query_head, {0, 0, probe.context_end}, from, progress,
                 [&](int, std::span<const float> row) {
                   for (std::size_t i = 0; i < length; ++i) most[i] = std::max(most[i], row[i]);
                 });
    }
    std::vector<double>& own = sums[static_cast<std::size_t>(model.head_of(query_head))];
    for (std::size_t i = 0; i < length; ++i) {
      own[i] += static_cast<double>(most[i]) / model.group_size();
    }
  }
  std::vector<double> mean(length, 0.0);
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = 0; i < length; ++i) {
      if (values) {
        sums[head][i] *=
            static_cast<double>(states.values[head].row(static_cast<Eigen::Index>(i)).norm());
      }
      mean[i] += sums[head][i] / static_cast<double>(heads);
    }
  }
  std::vector<std::vector<float>> scores(heads);
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = 0; i < length; ++i) {
      scores[head].push_back(static_cast<float>(sums[head][i] + (add_mean ? mean[i] : 0.0)));
    }
  }
  return scores;
}
}  // namespace

void kvcompose(PolicyEntry& entry) {
  entry.summary = "the most attention an entry gets while the model reads the context again";
  entry.traits.reads_queries = false;
  entry.traits.reads_sequence = true;
  entry.traits.reads_probe = true;
  entry.formula =
      "score_i = m_i + mean over the layer's heads of m_i; m_i: mean over the group of the "
      "largest, over the queries r of the second reading, of softmax(s q_r·[context, the pass up "
      "to r])[i]; what the probe does not cover: the largest score";
  entry.source = "KVCompose (Akulov et al., 2025, arXiv 2509.05165); as kvpress";
  entry.needs =
      "a probe (kvloupe-capture run --probe reread, or repeat). It looks at no query of the prompt";
  entry.work =
      "a lookup per entry; once P E products of length d per query head, P tokens of the probe, E "
      "of the context; and the model reads the context a second time";
  entry.differences =
      "the authors read the context again as it is: --probe reread. With --probe repeat a request "
      "to repeat comes first, whose queries do not count. They choose composite tokens over all "
      "layers: add global(by=layer), or global if heads may hold different numbers";
  entry.parameters = {
      flag_parameter("values", 0.0, "1: times ||v_i||"),
      flag_parameter("mean", 1.0, "0: without the mean over the heads of the layer")};
  entry.example = "kvcompose+global(layer)";
  entry.variants = {{"the paper: composite tokens", "kvcompose+global(by=layer)"},
                    {"kvpress, unstructured", "kvcompose+global"}};
  entry.builder = ScoreBuilder{
      [](const SpecPart& part, const LayerContext& context) {
        const bool values = part.count("values") == 1;
        const bool mean = part.count("mean") == 1;
        return make_copyable<ProbeScore>(
            part, context, LayerProbeParts{values, false},
            [=](const ProbeInfo& probe, const LayerProbe& states, const Progress& progress) {
              return scores_of(probe, states, values, mean, progress);
            });
      },
      ScoreScale::common};
}

}  // namespace kvloupe::policies

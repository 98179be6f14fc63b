#include "analysis/metric/sink.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <cmath>
#include <vector>

#include "analysis/metric/attention.h"

namespace kvloupe {

float sink_strength(const Trace& trace, int layer, int query_head, int token, Progress& progress) {
  if (token < 0 || token >= trace.length()) {
    throw UsageError(fmt::format("token {}: {} has tokens 0 to {}", token, trace.path().string(),
                                 trace.length() - 1));
  }
  const int later = trace.length() - 1 - token;
  if (later == 0) return 0.0F;
  const std::vector<float> logsumexp = attention_logsumexp(trace, layer, query_head, progress);
  const Matrix queries = trace.query(layer, query_head);
  const Matrix keys = trace.key(layer, trace.model().head_of(query_head));
  const Eigen::VectorXf logits = queries.bottomRows(later) * keys.row(token).transpose() *
                                 static_cast<float>(trace.run().attention_scale);
  double sum = 0.0;
  for (int i = 0; i < later; ++i) {
    sum += std::exp(static_cast<double>(logits[i]) -
                    logsumexp[static_cast<std::size_t>(token + 1 + i)]);
  }
  return static_cast<float>(sum / later);
}

Matrix sink_strengths(const Trace& trace, int token, Progress& progress) {
  const int heads = trace.model().num_heads;
  Matrix strengths(trace.model().num_layers, heads);
  progress.set_total(strengths.size());
  tbb::parallel_for(0, static_cast<int>(strengths.size()), [&](int i) {
    progress.check();
    strengths(i / heads, i % heads) = sink_strength(trace, i / heads, i % heads, token, progress);
    progress.advance();
  });
  return strengths;
}

}  // namespace kvloupe
